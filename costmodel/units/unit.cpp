#include "costmodel/units/unit.h"

#include <algorithm>
#include <array>

namespace xt {
namespace {

constexpr double kibi = 1024.0;

constexpr std::array byte_units = {Unit{"B", 1},
                                   Unit{"kB", 1e3},
                                   Unit{"KiB", kibi},
                                   Unit{"MB", 1e6},
                                   Unit{"MiB", kibi* kibi},
                                   Unit{"GB", 1e9},
                                   Unit{"GiB", kibi* kibi* kibi},
                                   Unit{"TB", 1e12},
                                   Unit{"TiB", kibi* kibi* kibi* kibi},
                                   Unit{"PB", 1e15},
                                   Unit{"PiB", kibi* kibi* kibi* kibi* kibi}};

constexpr std::array flop_units = {Unit{"FLOP", 1},     Unit{"MFLOP", 1e6},  Unit{"GFLOP", 1e9},
                                   Unit{"TFLOP", 1e12}, Unit{"PFLOP", 1e15}, Unit{"EFLOP", 1e18},
                                   Unit{"ZFLOP", 1e21}, Unit{"YFLOP", 1e24}};

constexpr std::array time_units = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                   Unit{"s", 1},     Unit{"min", 60},  Unit{"h", 3600},
                                   Unit{"d", 86400}};

constexpr std::array byte_rate_units = {
    Unit{"B/s", 1},           Unit{"kB/s", 1e3},  Unit{"KiB/s", kibi},
    Unit{"Mbit/s", 1e6 / 8},  Unit{"MB/s", 1e6},  Unit{"MiB/s", kibi* kibi},
    Unit{"Gbit/s", 1e9 / 8},  Unit{"GB/s", 1e9},  Unit{"GiB/s", kibi* kibi* kibi},
    Unit{"Tbit/s", 1e12 / 8}, Unit{"TB/s", 1e12}, Unit{"TiB/s", kibi* kibi* kibi* kibi}};

constexpr std::array flop_rate_units = {Unit{"FLOP/s", 1},     Unit{"MFLOP/s", 1e6},
                                        Unit{"GFLOP/s", 1e9},  Unit{"TFLOP/s", 1e12},
                                        Unit{"PFLOP/s", 1e15}, Unit{"EFLOP/s", 1e18}};

constexpr std::array intensity_units = {Unit{"FLOP/B", 1}};

constexpr Dimension byte_dimension = {"bytes", "40 GiB", byte_units};
constexpr Dimension flop_dimension = {"flops", "3.1 PFLOP", flop_units};
constexpr Dimension time_dimension = {"time", "12 us", time_units};
constexpr Dimension byte_rate_dimension = {"bytes per second", "64 GB/s", byte_rate_units};
constexpr Dimension flop_rate_dimension = {"flops per second", "400 TFLOP/s", flop_rate_units};
constexpr Dimension intensity_dimension = {"flops per byte", "200 FLOP/B", intensity_units};

constexpr std::array<const Dimension*, 6> all_dimensions = {
    &byte_dimension,      &flop_dimension,      &time_dimension,
    &byte_rate_dimension, &flop_rate_dimension, &intensity_dimension};

}  // namespace

template <>
const Dimension& dimension<Bytes>() {
  return byte_dimension;
}
template <>
const Dimension& dimension<Flops>() {
  return flop_dimension;
}
template <>
const Dimension& dimension<Seconds>() {
  return time_dimension;
}
template <>
const Dimension& dimension<BytesPerSecond>() {
  return byte_rate_dimension;
}
template <>
const Dimension& dimension<FlopsPerSecond>() {
  return flop_rate_dimension;
}
template <>
const Dimension& dimension<FlopsPerByte>() {
  return intensity_dimension;
}

std::span<const Dimension* const> dimensions() { return all_dimensions; }

const Unit* unit_named(const Dimension& dimension, std::string_view name) {
  const auto found = std::ranges::find(dimension.units, name, &Unit::name);
  return found == dimension.units.end() ? nullptr : &*found;
}

}  // namespace xt

#include "costmodel/units/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "costmodel/units/parse.h"

namespace xt {
namespace {

/// Digits before the decimal point of a positive number; 0 or less below 0.1.
int integer_digits(double magnitude) {
  return static_cast<int>(std::floor(std::log10(magnitude))) + 1;
}

/// `value` rounded to `digits` significant digits.
double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, digits - integer_digits(std::abs(value)));
  return std::nearbyint(value * scale) / scale;
}

/// `value` in the largest of `units` (small to large) that leaves at least 1 of it.
std::string in_units(double value, int digits, const Dimension& dimension,
                     std::initializer_list<std::string_view> units) {
  const Unit* chosen = &dimension.units.front();
  for (const Unit& unit : dimension.units) {
    const bool is_asked_for = std::ranges::find(units, unit.name) != units.end();
    const bool is_first = chosen->name != *units.begin() && unit.name == *units.begin();
    if (is_asked_for && (is_first || std::abs(rounded(value / unit.factor, digits)) >= 1))
      chosen = &unit;
  }
  return fmt::format("{} {}", significant(value / chosen->factor, digits), chosen->name);
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double shown = rounded(value, digits);
  if (shown == 0) return "0";
  const int decimals = std::max(0, digits - integer_digits(std::abs(shown)));
  std::string text = fmt::format("{:.{}f}", shown, decimals);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string format(Bytes bytes) {
  return in_units(static_cast<double>(bytes.value), 4, dimension<Bytes>(),
                  {"B", "KiB", "MiB", "GiB"});
}

std::string format(Flops flops) {
  return in_units(flops.value, 4, dimension<Flops>(),
                  {"FLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP"});
}

std::string format(Seconds seconds) {
  const double magnitude = std::abs(rounded(seconds.value, 3));
  const Dimension& time = dimension<Seconds>();
  if (magnitude < 120) return in_units(seconds.value, 3, time, {"ns", "us", "ms", "s"});
  // Below two hours and two days the smaller unit reads better: 90 min, 36 h.
  const std::string_view unit = magnitude < 7200 ? "min" : magnitude < 172800 ? "h" : "d";
  return in_units(seconds.value, 3, time, {unit});
}

std::string format(Duration duration) { return format(to_seconds(duration)); }

std::string format(BytesPerSecond rate) {
  return in_units(rate.value, 4, dimension<BytesPerSecond>(), {"B/s", "kB/s", "MB/s", "GB/s"});
}

std::string format(FlopsPerSecond rate) {
  return in_units(rate.value, 4, dimension<FlopsPerSecond>(),
                  {"FLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"});
}

std::string format(FlopsPerByte intensity) {
  return in_units(intensity.value, 4, dimension<FlopsPerByte>(), {"FLOP/B"});
}

std::string exact_in(const Dimension& dimension, double base) {
  std::string best = fmt::format("{} {}", base, dimension.units.front().name);
  std::size_t best_length = std::string::npos;
  for (const Unit& unit : dimension.units) {
    // Twelve digits are tried first so that 12 us does not come out as 11.999999999999998 us.
    for (const std::string& number :
         {fmt::format("{:.12g}", base / unit.factor), fmt::format("{}", base / unit.factor)}) {
      const std::string text = fmt::format("{} {}", number, unit.name);
      // 400 GB/s reads better than 0.4 TB/s.
      const std::size_t length = text.size() + (number.starts_with("0.") ? 2 : 0);
      if (length > best_length || parse_in(dimension, text).value != base) continue;
      best = text;
      best_length = length;
    }
  }
  return best;
}

std::string exact(Bytes bytes) {
  Unit chosen = dimension<Bytes>().units.front();
  for (const Unit& unit : dimension<Bytes>().units)
    if (bytes.value != 0 && bytes.value % static_cast<std::int64_t>(unit.factor) == 0)
      if (unit.factor > chosen.factor) chosen = unit;
  return fmt::format("{} {}", bytes.value / static_cast<std::int64_t>(chosen.factor), chosen.name);
}

}  // namespace xt

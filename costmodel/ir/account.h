#pragma once

// Where the time of a step went, counted the same way for predicted and for measured timelines.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/ir/timeline.h"

namespace xt {

/// Communication and copies that can hide behind compute.
enum class Traffic : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  swap_out,
  swap_in
};

inline constexpr std::size_t n_traffic = 6;
inline constexpr std::array<std::string_view, n_traffic> traffic_names = {
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "swap_out", "swap_in"};

/// The traffic an op is, if it is any.
std::optional<Traffic> traffic_of(Kernel kernel);

/// Time of one kind of traffic.
struct TrafficTime {
  Seconds total;    ///< while it runs
  Seconds exposed;  ///< while it runs and no compute op of the rank does

  /// 1 − exposed / total; 1 where there is none.
  double overlapped_ratio() const { return total.value > 0 ? 1.0 - exposed / total : 1.0; }
};

/// One step's time.
struct StepAccount {
  Seconds step;
  Seconds compute;                         ///< while any compute op runs
  std::array<Seconds, n_phases> phases{};  ///< compute time by phase
  std::array<TrafficTime, n_traffic> traffic{};
  Seconds idle;  ///< while neither compute nor traffic runs
};

/// Counts `timeline`.
///
/// Assumes: ops of the compute lane do not overlap each other
StepAccount account(const Schedule& schedule, const Timeline& timeline);

/// Counts `events`, which took `span` together.
StepAccount account(const Schedule& schedule, std::span<const Event> events, Duration span);

/// Counts the first `spans` of each section on its own, by section. What runs behind that is
/// traffic: it counts as running, but is exposed to none of the section.
///
/// Assumes: the schedule repeats nothing
std::vector<StepAccount> account_by_section(const Schedule& schedule, const Timeline& timeline,
                                            std::span<const Duration> spans);

/// `sum` and `times` as much as `more`, one behind the other.
void add(StepAccount& sum, const StepAccount& more, double times = 1);

}  // namespace xt

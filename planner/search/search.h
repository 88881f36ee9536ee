#pragma once

// Which step should we run? Memory of every candidate exactly, a bound on its time, and a
// simulation of each that its bound does not rule out. What is found does not depend on the number
// of threads.

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/io/json.h"
#include "costmodel/ir/account.h"
#include "costmodel/report/style.h"
#include "planner/estimate/estimate.h"
#include "planner/search/space.h"

namespace xt {

/// How to search.
struct SearchSettings {
  std::optional<std::int64_t> tokens_per_step = {};
  std::size_t n_ranked = 10;
  std::size_t n_threads = 1;
  std::ostream* progress = nullptr;  ///< where to say how far it is, if anywhere
};

/// What is known of a candidate.
struct Outcome {
  Bytes peak;        ///< of device memory, allocated
  Bytes in_use;      ///< of the device, in the median run
  Bytes in_use_p95;  ///< in the run in twenty that holds most
  Bytes host;
  bool fits = false;
  Seconds bound;                       ///< no step is shorter; of what fits
  std::optional<StepAccount> account;  ///< where it was simulated
};

/// Why a candidate is not the winner, or that it is among the best.
enum class Verdict : std::uint8_t {
  ranked,
  slower,
  slower_by_bound,
  over_device_memory,
  over_host_memory
};

inline constexpr std::array<std::string_view, 5> verdict_names = {
    "ranked", "slower", "slower_by_bound", "over_device_memory", "over_host_memory"};

/// What is nearest to the winner and has another value of one knob: of the candidates that fit, one
/// with the fewest other values; if none fits, the one that misses memory least.
struct Alternative {
  std::size_t knob = 0;
  std::size_t value = 0;
  std::optional<std::size_t> nearest = {};
  /// Why planning refuses what would be nearest. Empty if the value comes to the same as another.
  std::vector<std::string> refused = {};
};

/// A search and all that it looked at. Positions are those of candidates.
struct Search {
  Subject subject;
  SearchSpace space;
  std::vector<Outcome> outcomes;
  std::vector<std::size_t> ranked;        ///< the fastest that fit, fastest first
  std::vector<Alternative> alternatives;  ///< to the winner
  std::vector<Verdict> verdicts;

  /// The fastest candidate that fits, if any does.
  std::optional<std::size_t> winner() const {
    return ranked.empty() ? std::nullopt : std::optional(ranked.front());
  }
};

/// Searches what `request` leaves open. A step that takes equally long as another comes behind it
/// if its values do.
///
/// Throws: InputError with every problem of what is given
Search search(Request& request, Subject subject, const SearchSettings& settings);

/// Memory and bound of each of `strategies`, and whether it fits.
///
/// Assumes: there are some, and they differ in what their layers do only, as those of a layout
std::vector<Outcome> outcomes_of(const OpGraph& graph, const std::vector<Strategy>& strategies,
                                 const Profile& profile);

/// The step of `plan`, whose op graph is `graph`, simulated; of a pipeline, the mean over stages.
StepAccount simulated(const Plan& plan, const OpGraph& graph);

/// Of the parts of a step, the one that grew most against another step.
struct Loss {
  std::string what;
  Seconds more;
};
Loss largest_loss(const StepAccount& better, const StepAccount& worse);

/// What a step is, in the words of a run file; what is as in plain FSDP goes without saying.
std::string strategy_text(const Strategy& strategy);

/// Memory that a step needs over memory that there is, of the device or of the host, whichever is
/// larger.
double memory_ratio(const Outcome& outcome, const Profile& profile);

/// Of the candidates that do not fit, the one that comes nearest; none if all fit.
std::optional<std::size_t> nearest_miss(const Search& search);

/// The document of `--json`, schema xt.search/1.
Json search_json(const Search& search);

/// The answer for people.
std::string search_text(const Search& search, const Style& style);

/// For each other value of a knob that has several, what is nearest to the winner.
///
/// Assumes: `search` has a winner
std::vector<Alternative> alternatives(const Search& search);

}  // namespace xt

#include <algorithm>
#include <tuple>

#include "planner/search/search.h"

namespace xt {
namespace {

// Of the knobs that `to` has values of.
std::int64_t n_changed(const Values& from, const Values& to) {
  std::int64_t n = 0;
  for (std::size_t knob = 0; knob < to.size(); ++knob) n += from[knob] != to[knob] ? 1 : 0;
  return n;
}

// Fewest other values first; then those that may be fastest, or miss memory least.
auto rank(const Search& search, std::size_t i) {
  const Outcome& outcome = search.outcomes[i];
  const double distance =
      outcome.fits ? outcome.bound.value : memory_ratio(outcome, search.subject.profile);
  return std::tuple(!outcome.fits,
                    outcome.fits ? n_changed(search.space.candidates[*search.winner()].values,
                                             search.space.candidates[i].values)
                                 : 0,
                    distance);
}

std::vector<std::string> refusal(const Search& search, std::size_t knob, std::size_t value) {
  const Values& won = search.space.candidates[*search.winner()].values;
  const Refused* nearest = nullptr;
  for (const Refused& of : search.space.refused) {
    if (knob >= of.values.size() || of.values[knob] != value) continue;
    if (nearest == nullptr || n_changed(won, of.values) < n_changed(won, nearest->values))
      nearest = &of;
  }
  return nearest == nullptr ? std::vector<std::string>() : nearest->reasons;
}

Alternative alternative(const Search& search, std::size_t knob, std::size_t value) {
  Alternative result{knob, value};
  for (std::size_t i = 0; i < search.outcomes.size(); ++i) {
    if (search.space.candidates[i].values[knob] != value) continue;
    if (!result.nearest || rank(search, i) < rank(search, *result.nearest)) result.nearest = i;
  }
  if (!result.nearest) result.refused = refusal(search, knob, value);
  return result;
}

}  // namespace

std::vector<Alternative> alternatives(const Search& search) {
  std::vector<Alternative> result;
  const std::vector<Knob>& knobs = search.space.knobs;
  const Values& won = search.space.candidates[*search.winner()].values;
  for (std::size_t knob = 0; knob < knobs.size(); ++knob)
    for (std::size_t value = 0; value < knobs[knob].values.size(); ++value)
      if (value != won[knob]) result.push_back(alternative(search, knob, value));
  return result;
}

}  // namespace xt

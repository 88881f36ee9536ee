#include <algorithm>
#include <set>
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

using RefusedValues = std::set<Values>;

// Whether `values` were refused, or the layout that they begin with.
bool is_refused(const RefusedValues& refused, const SearchSpace& space, Values values) {
  if (refused.contains(values)) return true;
  values.resize(static_cast<std::size_t>(std::ranges::count(
      space.knobs, KnobKind::layout, [](const Knob& knob) { return knob.kind; })));
  return refused.contains(values);
}

// Of the combinations that the value is to blame for, as they are not refused with the
// winner's value, the reasons of the nearest.
std::vector<std::string> refusal(const Search& search, const RefusedValues& refused,
                                 std::size_t knob, std::size_t value) {
  const Values& won = search.space.candidates[*search.winner()].values;
  const Refused* nearest = nullptr;
  for (const Refused& of : search.space.refused) {
    if (knob >= of.values.size() || of.values[knob] != value) continue;
    if (nearest != nullptr && n_changed(won, of.values) >= n_changed(won, nearest->values))
      continue;
    Values with_won = of.values;
    with_won[knob] = won[knob];
    if (!is_refused(refused, search.space, std::move(with_won))) nearest = &of;
  }
  return nearest == nullptr ? std::vector<std::string>() : nearest->reasons;
}

Alternative alternative(const Search& search, const RefusedValues& refused, std::size_t knob,
                        std::size_t value) {
  Alternative result{knob, value};
  for (std::size_t i = 0; i < search.outcomes.size(); ++i) {
    if (search.space.candidates[i].values[knob] != value) continue;
    if (!result.nearest || rank(search, i) < rank(search, *result.nearest)) result.nearest = i;
  }
  if (!result.nearest) result.refused = refusal(search, refused, knob, value);
  return result;
}

}  // namespace

std::vector<Alternative> alternatives(const Search& search) {
  std::vector<Alternative> result;
  const std::vector<Knob>& knobs = search.space.knobs;
  const Values& won = search.space.candidates[*search.winner()].values;
  RefusedValues refused;
  for (const Refused& of : search.space.refused) refused.insert(of.values);
  for (std::size_t knob = 0; knob < knobs.size(); ++knob)
    for (std::size_t value = 0; value < knobs[knob].values.size(); ++value)
      if (value != won[knob]) result.push_back(alternative(search, refused, knob, value));
  return result;
}

}  // namespace xt

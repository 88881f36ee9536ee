#include "planner/search/search.h"

namespace xt {
namespace {

bool is_better(const Outcome& a, const Outcome& b) {
  return a.account && (!b.account || a.account->step < b.account->step);
}

std::string refusal(const SearchSpace& space, std::size_t knob, std::size_t value) {
  for (const Refused& refused : space.refused)
    if (knob < refused.values.size() && refused.values[knob] == value) return refused.reason;
  return "the same as another value";
}

Alternative alternative(const Search& search, std::size_t knob, std::size_t value) {
  const Profile& profile = search.subject.profile;
  Alternative result{knob, value};
  for (std::size_t i = 0; i < search.outcomes.size(); ++i) {
    if (search.space.candidates[i].values[knob] != value) continue;
    const Outcome& outcome = search.outcomes[i];
    if (!outcome.fits) {
      if (!result.nearest ||
          memory_ratio(outcome, profile) < memory_ratio(search.outcomes[*result.nearest], profile))
        result.nearest = i;
    } else if (!result.best || is_better(outcome, search.outcomes[*result.best])) {
      result.best = i;
    }
  }
  if (!result.best && !result.nearest) result.reason = refusal(search.space, knob, value);
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

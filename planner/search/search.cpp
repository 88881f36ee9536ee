#include "planner/search/search.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <ostream>

#include "costmodel/report/progress.h"
#include "costmodel/sim/bound.h"
#include "planner/lower/lower.h"
#include "planner/parallel.h"

namespace xt {
namespace {

// Candidates that are simulated before it is asked again which are worth it. So many whatever the
// number of threads is, so that what is simulated does not depend on it.
constexpr std::size_t batch_size = 32;

// Simulates the candidates that may be among the best of all, or the best with a value of a knob.
class BestFirst {
 public:
  BestFirst(Search& search, const SearchSettings& settings)
      : search_(search), settings_(settings), best_(settings.n_ranked, forever) {
    for (const Knob& knob : search.space.knobs) by_value_.emplace_back(knob.values.size(), forever);
  }

  void run();

 private:
  static constexpr double forever = std::numeric_limits<double>::infinity();

  std::vector<std::size_t> by_bound() const;
  bool may_matter(std::size_t candidate) const;
  std::vector<std::size_t> next_batch(const std::vector<std::size_t>& order);
  void note(std::size_t candidate);

  Search& search_;
  const SearchSettings& settings_;
  std::size_t next_ = 0;
  std::vector<double> best_;                   ///< steps, shortest first
  std::vector<std::vector<double>> by_value_;  ///< the shortest step, by knob and value
};

std::vector<std::size_t> BestFirst::by_bound() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < search_.outcomes.size(); ++i)
    if (search_.outcomes[i].fits) order.push_back(i);
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return search_.outcomes[i].bound.value; });
  return order;
}

bool BestFirst::may_matter(std::size_t candidate) const {
  const double bound = search_.outcomes[candidate].bound.value;
  if (!best_.empty() && bound <= best_.back()) return true;
  const Values& values = search_.space.candidates[candidate].values;
  for (std::size_t knob = 0; knob < values.size(); ++knob)
    if (bound <= by_value_[knob][values[knob]]) return true;
  return false;
}

std::vector<std::size_t> BestFirst::next_batch(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> batch;
  for (; next_ < order.size() && batch.size() < batch_size; ++next_)
    if (may_matter(order[next_])) batch.push_back(order[next_]);
  return batch;
}

void BestFirst::note(std::size_t candidate) {
  const double step = search_.outcomes[candidate].account->step.value;
  const Values& values = search_.space.candidates[candidate].values;
  for (std::size_t knob = 0; knob < values.size(); ++knob) {
    double& best = by_value_[knob][values[knob]];
    best = std::min(best, step);
  }
  if (best_.empty() || step >= best_.back()) return;
  best_.back() = step;
  std::ranges::sort(best_);
}

void BestFirst::run() {
  const std::vector<std::size_t> order = by_bound();
  std::ostream nowhere(nullptr);
  Progress progress(settings_.progress != nullptr ? *settings_.progress : nowhere,
                    settings_.progress != nullptr,
                    "simulating what may be best:", static_cast<std::int64_t>(order.size()));
  while (true) {
    const std::vector<std::size_t> batch = next_batch(order);
    if (batch.empty()) return;
    in_parallel(batch.size(), settings_.n_threads, [&](std::size_t i) {
      const Candidate& candidate = search_.space.candidates[batch[i]];
      const Layout& layout = search_.space.layout(candidate);
      search_.outcomes[batch[i]].account =
          simulated(layout.graph, candidate.strategy, search_.subject.profile);
    });
    for (const std::size_t candidate : batch) note(candidate);
    progress.update(static_cast<std::int64_t>(next_));
  }
}

void price_all(Search& search, const SearchSettings& settings) {
  const std::vector<Candidate>& candidates = search.space.candidates;
  search.outcomes.resize(candidates.size());
  std::ostream nowhere(nullptr);
  Progress progress(settings.progress != nullptr ? *settings.progress : nowhere,
                    settings.progress != nullptr,
                    "pricing candidates:", static_cast<std::int64_t>(candidates.size()));
  in_parallel(
      candidates.size(), settings.n_threads,
      [&](std::size_t i) {
        search.outcomes[i] = outcome_of(search.space.layout(candidates[i]).graph,
                                        candidates[i].strategy, search.subject.profile);
      },
      [&](std::size_t n) { progress.update(static_cast<std::int64_t>(n)); });
}

std::vector<std::size_t> ranked(const std::vector<Outcome>& outcomes, std::size_t n) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i].account) order.push_back(i);
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return outcomes[i].account->step.value; });
  order.resize(std::min(n, order.size()));
  return order;
}

Verdict verdict_of(const Outcome& outcome, const Profile& profile) {
  if (outcome.fits) return outcome.account ? Verdict::slower : Verdict::slower_by_bound;
  return outcome.host > profile.host_memory.value ? Verdict::over_host_memory
                                                  : Verdict::over_device_memory;
}

std::vector<Verdict> verdicts(const Search& search) {
  std::vector<Verdict> result;
  for (const Outcome& outcome : search.outcomes)
    result.push_back(verdict_of(outcome, search.subject.profile));
  for (const std::size_t i : search.ranked) result[i] = Verdict::ranked;
  return result;
}

}  // namespace

Outcome outcome_of(const OpGraph& graph, const Strategy& strategy, const Profile& profile) {
  const Schedule schedule = lower(graph, strategy);
  const Bindings bindings = assumed_bindings(schedule);
  const auto peaks = memory_peaks(schedule, bindings);
  Outcome outcome;
  outcome.peak = peaks[static_cast<std::size_t>(Space::device)].peak;
  outcome.host = peaks[static_cast<std::size_t>(Space::host)].peak;
  const Fit found = fit(profile, outcome.peak, outcome.host);
  outcome.reserved = found.reserved;
  outcome.fits = found.fits;
  outcome.bound = to_seconds(lower_bound(schedule, price(schedule, bindings, profile)));
  return outcome;
}

StepAccount simulated(const OpGraph& graph, const Strategy& strategy, const Profile& profile) {
  const Schedule schedule = lower(graph, strategy);
  const Bindings bindings = assumed_bindings(schedule);
  return account(schedule, simulate(schedule, bindings, price(schedule, bindings, profile)));
}

Loss largest_loss(const StepAccount& better, const StepAccount& worse) {
  Loss loss{"idle", worse.idle - better.idle};
  const auto consider = [&](std::string what, Seconds more) {
    if (more > loss.more) loss = {std::move(what), more};
  };
  for (std::size_t i = 0; i < n_phases; ++i)
    consider(std::string(phase_names[i]), worse.phases[i] - better.phases[i]);
  for (std::size_t i = 0; i < n_traffic; ++i)
    consider("exposed " + std::string(traffic_names[i]),
             worse.traffic[i].exposed - better.traffic[i].exposed);
  return loss;
}

Search search(Request& request, Subject subject, const SearchSettings& settings) {
  Search result;
  result.subject = std::move(subject);
  result.space = enumerate(request, result.subject, settings.tokens_per_step, settings.n_threads);
  price_all(result, settings);
  BestFirst(result, settings).run();
  result.ranked = ranked(result.outcomes, settings.n_ranked);
  result.verdicts = verdicts(result);
  if (result.winner()) result.alternatives = alternatives(result);
  return result;
}

double memory_ratio(const Outcome& outcome, const Profile& profile) {
  const auto ratio = [](Bytes needed, Bytes there) {
    return static_cast<double>(needed.value) / static_cast<double>(there.value);
  };
  return std::max(ratio(outcome.reserved, profile.memory.value),
                  ratio(outcome.host, profile.host_memory.value));
}

std::optional<std::size_t> nearest_miss(const Search& search) {
  const auto ratio = [&](std::size_t i) {
    return memory_ratio(search.outcomes[i], search.subject.profile);
  };
  std::optional<std::size_t> nearest;
  for (std::size_t i = 0; i < search.outcomes.size(); ++i)
    if (!search.outcomes[i].fits && (!nearest || ratio(i) < ratio(*nearest))) nearest = i;
  return nearest;
}

}  // namespace xt

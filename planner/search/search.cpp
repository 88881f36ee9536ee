#include "planner/search/search.h"

#include <algorithm>
#include <ostream>

#include "costmodel/report/progress.h"
#include "planner/parallel.h"

namespace xt {
namespace {

// Candidates that are simulated before it is asked again which are worth it. So many whatever the
// number of threads is, so that what is simulated does not depend on it.
constexpr std::size_t batch_size = 32;

void simulate_all(Search& search, const std::vector<std::size_t>& which, std::size_t n_threads) {
  in_parallel(which.size(), n_threads, [&](std::size_t i) {
    Outcome& outcome = search.outcomes[which[i]];
    if (outcome.account) return;
    const Candidate& candidate = search.space.candidates[which[i]];
    outcome.account =
        simulated(plan_of(search.space, candidate), search.space.layout(candidate).graph);
  });
}

std::vector<std::size_t> by_bound(const std::vector<Outcome>& outcomes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i].fits) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return outcomes[i].bound.value; });
  return order;
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

// Simulates from the smallest bound up, until no bound is below the last of the best.
void simulate_best_first(Search& search, const SearchSettings& settings) {
  const std::vector<std::size_t> order = by_bound(search.outcomes);
  std::ostream nowhere(nullptr);
  Progress progress(settings.progress != nullptr ? *settings.progress : nowhere,
                    settings.progress != nullptr,
                    "simulating what may be best:", static_cast<std::int64_t>(order.size()));
  const auto may_be_ranked = [&](std::size_t i) {
    return search.ranked.size() < settings.n_ranked ||
           search.outcomes[i].bound <= search.outcomes[search.ranked.back()].account->step;
  };
  for (std::size_t next = 0; next < order.size() && may_be_ranked(order[next]);) {
    const std::size_t end = std::min(order.size(), next + batch_size);
    simulate_all(search,
                 {order.begin() + static_cast<std::ptrdiff_t>(next),
                  order.begin() + static_cast<std::ptrdiff_t>(end)},
                 settings.n_threads);
    search.ranked = ranked(search.outcomes, settings.n_ranked);
    next = end;
    progress.update(static_cast<std::int64_t>(next));
  }
}

void find_alternatives(Search& search, const SearchSettings& settings) {
  search.alternatives = alternatives(search);
  std::vector<std::size_t> fitting;
  for (const Alternative& of : search.alternatives)
    if (of.nearest && search.outcomes[*of.nearest].fits) fitting.push_back(*of.nearest);
  std::ranges::sort(fitting);
  fitting.erase(std::unique(fitting.begin(), fitting.end()), fitting.end());
  simulate_all(search, fitting, settings.n_threads);
}

// The first candidate of each layout, and the end of the last one's. Candidates lie by layout.
std::vector<std::size_t> starts_of_layouts(const SearchSpace& space) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < space.candidates.size(); ++i)
    if (i == 0 || space.candidates[i].layout != space.candidates[i - 1].layout) starts.push_back(i);
  starts.push_back(space.candidates.size());
  return starts;
}

void price_all(Search& search, const SearchSettings& settings) {
  const std::vector<Candidate>& candidates = search.space.candidates;
  const std::vector<std::size_t> starts = starts_of_layouts(search.space);
  search.outcomes.resize(candidates.size());
  std::ostream nowhere(nullptr);
  Progress progress(settings.progress != nullptr ? *settings.progress : nowhere,
                    settings.progress != nullptr,
                    "pricing candidates:", static_cast<std::int64_t>(candidates.size()));
  in_parallel(
      starts.size() - 1, settings.n_threads,
      [&](std::size_t layout) {
        std::vector<Strategy> strategies;
        for (std::size_t i = starts[layout]; i < starts[layout + 1]; ++i)
          strategies.push_back(candidates[i].strategy);
        std::ranges::move(outcomes_of(search.space.layout(candidates[starts[layout]]).graph,
                                      strategies, search.subject.profile),
                          search.outcomes.begin() + static_cast<std::ptrdiff_t>(starts[layout]));
      },
      [&](std::size_t n) { progress.update(static_cast<std::int64_t>(starts[n])); });
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
  // Plans have the attention that is asked for, which a machine's profile need not be.
  result.subject.profile = result.space.layouts.front().plan.profile;
  price_all(result, settings);
  simulate_best_first(result, settings);
  if (result.winner()) find_alternatives(result, settings);
  result.verdicts = verdicts(result);
  return result;
}

double memory_ratio(const Outcome& outcome, const Profile& profile) {
  const auto ratio = [](Bytes needed, Bytes there) {
    return static_cast<double>(needed.value) / static_cast<double>(there.value);
  };
  return std::max(ratio(outcome.in_use, profile.memory.value),
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

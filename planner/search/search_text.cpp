#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/estimate/run_cost.h"
#include "planner/search/search.h"

namespace xt {
namespace {

constexpr std::size_t most_refusals = 6;  // that are shown; the JSON has all

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / (1024.0 * 1024.0 * 1024.0); }

const Candidate& candidate(const Search& search, std::size_t i) {
  return search.space.candidates[i];
}

Seconds step(const Search& search, std::size_t i) { return search.outcomes[i].account->step; }

std::string words(const Search& search, std::size_t i) {
  return strategy_text(candidate(search, i).strategy);
}

// By how much a candidate misses a rank's memory.
std::string miss_text(const Search& search, std::size_t i) {
  const Outcome& outcome = search.outcomes[i];
  const Profile& profile = search.subject.profile;
  if (outcome.in_use > profile.memory.value)
    return fmt::format("by ~{}", format(outcome.in_use - profile.memory.value));
  return fmt::format("by ~{} of host memory", format(outcome.host - profile.host_memory.value));
}

// "−4.1 %" of the winner's throughput.
std::string behind(const Search& search, std::size_t i) {
  return fmt::format("{:+.1f} %", 100 * (step(search, *search.winner()) / step(search, i) - 1));
}

std::string loss_text(const Search& search, std::size_t i) {
  const Loss loss =
      largest_loss(*search.outcomes[*search.winner()].account, *search.outcomes[i].account);
  return loss.more.value > 0 ? fmt::format("{} +{}", loss.what, format(loss.more)) : "";
}

std::string first_lines(const Search& search) {
  const Plan plan = plan_of(search.space, search.space.candidates.front());
  const Strategy& s = plan.strategy;
  std::string text = fmt::format(
      "{} on {} × {}, engine {}, packs of {} tokens of samples of {}, {} tokens a step\n",
      plan.model_name, plan.devices, plan.profile.title, s.engine, s.pack_length,
      plan.data.lengths.text(), search.space.tokens_per_step);
  for (const Knob& knob : search.space.knobs) {
    std::vector<std::string_view> values;
    for (const KnobValue& value : knob.values) values.push_back(value.text);
    text += fmt::format("  {:<26}{}\n", knob.name, fmt::join(values, "  "));
  }
  const auto n_of = [&](auto is) { return std::ranges::count_if(search.outcomes, is); };
  text += fmt::format("{} candidates: {} fit, {} of them simulated, the others bounded\n",
                      search.outcomes.size(), n_of([](const Outcome& of) { return of.fits; }),
                      n_of([](const Outcome& of) { return of.account.has_value(); }));
  return text;
}

std::vector<Column> ranked_columns(const PlanRun& run) {
  std::vector<Column> columns = {{""},    {"tokens/device/s"}, {"step", "s"},
                                 {"MFU"}, {"in use", "GiB"},   {"P95", "GiB"}};
  if (run.tokens) columns.push_back({"device hours"});
  if (run.device_hour_price) columns.push_back({"cost"});
  columns.push_back({"strategy", {}, Align::left});
  return columns;
}

std::vector<std::string> ranked_row(std::size_t rank, const Plan& plan, const Estimate& answer) {
  std::vector<std::string> row = {std::to_string(rank + 1),
                                  "~" + significant(tokens_per_device_s(plan, answer), 4),
                                  "~" + significant(answer.account.step.value, 4),
                                  "~" + percent(answer.mfu()),
                                  "~" + significant(gib(answer.device.p50()), 4),
                                  "~" + significant(gib(answer.device.p95()), 4)};
  if (const auto cost = run_cost(plan, answer.account.step, answer.deviation)) {
    row.push_back("~" + significant(cost->device_hours, 4));
    if (cost->money) row.push_back("~" + significant(*cost->money, 4));
  }
  return row;
}

std::string ranked_table(const Search& search) {
  Table table(ranked_columns(plan_of(search.space, candidate(search, *search.winner())).run));
  for (std::size_t rank = 0; rank < search.ranked.size(); ++rank) {
    const std::size_t i = search.ranked[rank];
    const Plan plan = plan_of(search.space, candidate(search, i));
    std::vector<std::string> row = ranked_row(rank, plan, estimate(plan));
    row.push_back(words(search, i));
    table.row(std::move(row));
  }
  return "\n" + table.text();
}

// Candidates that lose for one reason, and the one that comes nearest.
struct Group {
  std::int64_t n = 0;
  std::size_t nearest = 0;
  double distance = 0;

  void add(std::size_t i, double at) {
    if (n++ == 0 || at < distance) {
      nearest = i;
      distance = at;
    }
  }
};

// By reason. Distances are comparable within a group.
std::map<std::pair<Verdict, std::string>, Group> groups(const Search& search) {
  std::map<std::pair<Verdict, std::string>, Group> result;
  for (std::size_t i = 0; i < search.outcomes.size(); ++i) {
    const Outcome& outcome = search.outcomes[i];
    switch (const Verdict verdict = search.verdicts[i]) {
      case Verdict::ranked:
        break;
      case Verdict::slower:
        result[{verdict,
                largest_loss(*search.outcomes[*search.winner()].account, *outcome.account).what}]
            .add(i, outcome.account->step.value);
        break;
      case Verdict::slower_by_bound:
        result[{verdict, {}}].add(i, outcome.bound.value);
        break;
      case Verdict::over_device_memory:
      case Verdict::over_host_memory:
        result[{verdict, {}}].add(i, memory_ratio(outcome, search.subject.profile));
        break;
    }
  }
  return result;
}

std::string nearest_text(const Search& search, Verdict verdict, std::size_t i) {
  const std::string of = words(search, i);
  switch (verdict) {
    case Verdict::ranked:
      return {};
    case Verdict::slower:
      return fmt::format("~{}, {}: {}", behind(search, i), loss_text(search, i), of);
    case Verdict::slower_by_bound:
      return fmt::format("~{} at least: {}", format(search.outcomes[i].bound), of);
    case Verdict::over_device_memory:
    case Verdict::over_host_memory:
      return fmt::format("{}: {}", miss_text(search, i), of);
  }
  return {};
}

std::string reason_text(Verdict verdict, const std::string& what) {
  switch (verdict) {
    case Verdict::ranked:
      return {};
    case Verdict::slower:
      return "slower, most by " + what;
    case Verdict::slower_by_bound:
      return "slower, by its busiest lane alone";
    case Verdict::over_device_memory:
      return "does not fit the device";
    case Verdict::over_host_memory:
      return "does not fit the host";
  }
  return {};
}

std::string losers_table(const Search& search) {
  Table table({{"why others lose", {}, Align::left}, {"candidates"}, {"nearest", {}, Align::left}});
  const auto found = groups(search);
  if (found.empty()) return {};
  for (const auto& [reason, group] : found)
    table.row({reason_text(reason.first, reason.second), std::to_string(group.n),
               nearest_text(search, reason.first, group.nearest)});
  return "\n" + table.text();
}

std::string refused_table(const SearchSpace& space) {
  std::map<std::string, std::int64_t> counts;
  for (const Refused& refused : space.refused)
    for (const std::string& reason : refused.reasons) counts[reason] += refused.n;
  if (counts.empty()) return {};
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, std::int64_t>::second);
  Table table({{"combinations refused, because", {}, Align::left}, {"number"}});
  for (std::size_t i = 0; i < std::min(most_refusals, sorted.size()); ++i)
    table.row({sorted[i].first, std::to_string(sorted[i].second)});
  std::string text = "\n" + table.text();
  if (sorted.size() > most_refusals)
    text += fmt::format("  more reasons in --json: {}\n", sorted.size() - most_refusals);
  return text;
}

std::vector<std::string> alternative_row(const Search& search, const Alternative& of) {
  const Knob& knob = search.space.knobs[of.knob];
  const std::string name = fmt::format("{} {}", knob.name, knob.values[of.value].text);
  if (!of.nearest && of.refused.empty()) return {name, {}, "comes to the same as another value"};
  if (!of.nearest) return {name, {}, "refused", fmt::format("{}", fmt::join(of.refused, "; "))};
  if (!search.outcomes[*of.nearest].fits)
    return {name, {}, "does not fit " + miss_text(search, *of.nearest), words(search, *of.nearest)};
  return {name, "~" + behind(search, *of.nearest), loss_text(search, *of.nearest),
          words(search, *of.nearest)};
}

std::string alternatives_table(const Search& search) {
  if (search.alternatives.empty()) return {};
  Table table({{"nearest with", {}, Align::left},
               {"throughput"},
               {"most by", {}, Align::left},
               {"strategy", {}, Align::left}});
  for (const Alternative& of : search.alternatives) table.row(alternative_row(search, of));
  return "\n" + table.text();
}

// Empty if also the run in twenty that holds most fits.
std::string risk_text(const Search& search, std::size_t i, const Style& style) {
  const Bytes in_use = search.outcomes[i].in_use_p95;
  const Bytes memory = search.subject.profile.memory.value;
  if (in_use <= memory) return {};
  return fmt::format("; {}: one run in twenty takes ~{} of {}",
                     style.painted(Meaning::warn, "at risk"), format(in_use), format(memory));
}

// What the winner's whole run takes; empty where nothing says how long it is.
std::string winner_run_text(const Search& search) {
  if (!search.winner()) return {};
  const Plan plan = plan_of(search.space, candidate(search, *search.winner()));
  if (!plan.run.tokens) return {};
  const Estimate answer = estimate(plan);
  return run_cost_text(plan, run_cost(plan, answer.account.step, answer.deviation));
}

std::string verdict_line(const Search& search, const Style& style) {
  if (const auto winner = search.winner())
    return fmt::format("\n{}: ~{} a step{}\n", style.painted(Meaning::good, words(search, *winner)),
                       format(step(search, *winner)), risk_text(search, *winner, style));
  const std::size_t nearest = *nearest_miss(search);
  return fmt::format("\n{}: the nearest misses {}: {}\n",
                     style.painted(Meaning::bad, "nothing fits"), miss_text(search, nearest),
                     words(search, nearest));
}

}  // namespace

std::string strategy_text(const Strategy& s) {
  std::string text = fmt::format("expert_parallel {}", s.expert_parallel);
  if (s.dispatch != Dispatch::all_to_all)
    text += fmt::format(" by {}", dispatch_names[static_cast<std::size_t>(s.dispatch)]);
  if (s.shard_ranks != 0) text += fmt::format(", shard_ranks {}", s.shard_ranks);
  if (s.sequence_parallel > 1) text += fmt::format(", sequence_parallel {}", s.sequence_parallel);
  if (s.context_parallel > 1) text += fmt::format(", context_parallel {}", s.context_parallel);
  if (s.tensor_parallel > 1) text += fmt::format(", tensor_parallel {}", s.tensor_parallel);
  if (s.pipeline_parallel > 1) text += fmt::format(", pipeline_parallel {}", s.pipeline_parallel);
  if (s.virtual_stages > 1) text += fmt::format(", virtual_stages {}", s.virtual_stages);
  if (s.pipeline_schedule != ChunkOrder::one_forward_one_backward)
    text += fmt::format(", pipeline_schedule {}",
                        chunk_order_names[static_cast<std::size_t>(s.pipeline_schedule)]);
  if (!s.pipeline_layers.empty())
    text += fmt::format(", pipeline_layers {}", fmt::join(s.pipeline_layers, ","));
  if (s.zero < 3) text += fmt::format(", zero {}", s.zero);
  if (s.intra_layer_micro_batches > 1)
    text += fmt::format(", {} packs in lock-step", s.intra_layer_micro_batches);
  if (s.gradient_accumulation > 1)
    text += fmt::format(", gradient_accumulation {}", s.gradient_accumulation);
  if (!s.reshards_layers) text += ", layers stay gathered";
  if (s.swaps_optimizer) text += ", optimizer on the host";
  text += fmt::format(", recompute {}", s.recompute_layers);
  if (!s.recompute_ops.is_all()) text += " of " + s.recompute_ops.text();
  if (s.swap_layers > 0) text += fmt::format(", swap {}", s.swap_layers);
  return text + fmt::format(", loss_chunk {}", s.loss_chunk);
}

std::string search_text(const Search& search, const Style& style) {
  std::string text = first_lines(search);
  if (search.winner()) text += ranked_table(search);
  text += losers_table(search) + refused_table(search.space) + alternatives_table(search);
  return text + verdict_line(search, style) + winner_run_text(search);
}

}  // namespace xt

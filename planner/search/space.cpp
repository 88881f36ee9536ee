#include "planner/search/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "planner/parallel.h"
#include "planner/plan/automatic.h"
#include "planner/plan/layers.h"

namespace xt {
namespace {

// Equal strategies have equal hashes; those of one layout that differ mostly have others.
struct LayersHash {
  std::size_t operator()(const Strategy& s) const {
    std::size_t hash = 0;
    for (const std::int64_t part : {s.recompute_layers, s.swap_layers, s.loss_chunk})
      hash = hash * 1'000'003 + static_cast<std::size_t>(part);
    return hash;
  }
};

// What comes of the values of a layout's knobs.
struct LayoutResult {
  std::optional<Layout> layout;
  std::vector<Candidate> candidates;
  std::vector<Refused> refused;
};

std::vector<std::string> reasons(const std::vector<Diagnostic>& problems) {
  std::vector<std::string> messages;
  for (const Diagnostic& problem : problems) messages.push_back(problem.message);
  return messages;
}

Strategy tokens_of(const RunFile& run, std::int64_t ranks) {
  Strategy s;
  s.ranks = ranks;
  s.pack_length = run.pack_length.value_or(default_pack_length);
  s.sequence_parallel = run.sequence_parallel.value_or(1);
  s.context_parallel = run.context_parallel.value_or(1);
  s.tensor_parallel = run.tensor_parallel.value_or(1);
  s.pipeline_parallel = run.pipeline_parallel.value_or(1);
  s.intra_layer_micro_batches = run.intra_layer_micro_batches.value_or(1);
  s.gradient_accumulation = run.gradient_accumulation.value_or(1);
  return s;
}

class Enumeration {
 public:
  Enumeration(const Request& request, const Subject& subject, const EngineRules& rules,
              std::vector<Knob> knobs, std::int64_t tokens_per_step)
      : request_(request),
        subject_(subject),
        rules_(rules),
        knobs_(std::move(knobs)),
        tokens_per_step_(tokens_per_step),
        ranks_(request.fields().devices.value_or(1) * subject.profile.ranks_per_device),
        n_layout_knobs_(static_cast<std::size_t>(std::ranges::count(
            knobs_, KnobKind::layout, [](const Knob& knob) { return knob.kind; }))) {}

  SearchSpace run(std::size_t n_threads) &&;

 private:
  std::int64_t combinations(std::size_t first, std::size_t last) const;
  Values values_at(std::int64_t index, std::size_t first, std::size_t last) const;
  void set(RunFile& run, const Values& values, std::size_t first) const;
  std::string accumulation_problem(RunFile& run) const;
  LayoutResult layout_at(std::int64_t index) const;
  void add_layers(LayoutResult& result, const Values& of_layout) const;

  const Request& request_;
  const Subject& subject_;
  const EngineRules& rules_;
  std::vector<Knob> knobs_;
  std::int64_t tokens_per_step_;
  std::int64_t ranks_;
  std::size_t n_layout_knobs_;
};

std::int64_t Enumeration::combinations(std::size_t first, std::size_t last) const {
  std::int64_t n = 1;
  for (std::size_t i = first; i < last; ++i)
    n *= static_cast<std::int64_t>(knobs_[i].values.size());
  return n;
}

// The last knob turns fastest.
Values Enumeration::values_at(std::int64_t index, std::size_t first, std::size_t last) const {
  Values values(last - first);
  for (std::size_t i = last; i-- > first;) {
    const auto n = static_cast<std::int64_t>(knobs_[i].values.size());
    values[i - first] = static_cast<std::uint8_t>(index % n);
    index /= n;
  }
  return values;
}

void Enumeration::set(RunFile& run, const Values& values, std::size_t first) const {
  for (std::size_t i = 0; i < values.size(); ++i) knobs_[first + i].values[values[i]].set(run);
}

// Sets the micro-steps that make up the tokens of a step, or says why none do.
std::string Enumeration::accumulation_problem(RunFile& run) const {
  const Strategy s = tokens_of(run, ranks_);
  if (s.pack_length % s.ranks_of_pack() != 0 || s.ranks % s.pipeline_parallel != 0 ||
      s.stage_ranks() < s.ranks_of_pack())
    return {};  // refused by the checks
  const std::int64_t once = s.tokens_per_step() / s.gradient_accumulation;
  if (run.gradient_accumulation && s.tokens_per_step() != tokens_per_step_)
    return fmt::format("with gradient_accumulation {} a step has {} tokens, not {}",
                       s.gradient_accumulation, s.tokens_per_step(), tokens_per_step_);
  if (once < 1 || tokens_per_step_ % once != 0)
    return fmt::format("steps of {} tokens do not divide into micro-steps of {}", tokens_per_step_,
                       once);
  run.gradient_accumulation = tokens_per_step_ / once;
  if (*run.gradient_accumulation <= most_accumulation) return {};
  return fmt::format("steps of {} tokens take more than {} micro-steps of {}", tokens_per_step_,
                     most_accumulation, once);
}

LayoutResult Enumeration::layout_at(std::int64_t index) const {
  LayoutResult result;
  const Values values = values_at(index, 0, n_layout_knobs_);
  const auto refuse = [&](std::vector<std::string> because) {
    result.refused.push_back(
        {values, combinations(n_layout_knobs_, knobs_.size()), std::move(because)});
    return std::move(result);
  };
  RunFile run = request_.fields();
  set(run, values, 0);
  const std::string problem = accumulation_problem(run);
  if (!problem.empty()) return refuse({problem});
  RunFile plain = run;  // what layers do is judged for each candidate
  plain.recompute.reset();
  plain.swap.reset();
  plain.loss_chunk = Choice{ChoiceKind::none, 0};
  Request request = request_.with(plain);
  try {
    Plan plan = resolve(request, subject_);
    OpGraph graph = graph_of(plan);
    result.layout = Layout{std::move(run), std::move(plan), std::move(graph)};
  } catch (const InputError& error) {
    return refuse(reasons(error.problems()));
  }
  add_layers(result, values);
  return result;
}

void Enumeration::add_layers(LayoutResult& result, const Values& of_layout) const {
  const Layout& layout = *result.layout;
  std::unordered_set<Strategy, LayersHash> seen;
  const std::int64_t n = combinations(n_layout_knobs_, knobs_.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const Values of_layers = values_at(i, n_layout_knobs_, knobs_.size());
    RunFile run = layout.fields;
    set(run, of_layers, n_layout_knobs_);
    Request request = request_.with(run);
    Strategy strategy = layout.plan.strategy;
    const LeftToPlanner left = choose_layers(strategy, subject_.architecture, rules_, request);
    Values values = of_layout;
    values.insert(values.end(), of_layers.begin(), of_layers.end());
    if (!request.problems().empty()) {
      result.refused.push_back({std::move(values), 1, reasons(request.problems())});
      continue;
    }
    choose_automatic(strategy, layout.graph, subject_.profile, left);
    const bool names_no_ops = strategy.recompute_layers == 0 && !strategy.recompute_ops.is_all() &&
                              !request_.fields().recompute_ops;
    if (!names_no_ops && seen.insert(strategy).second)
      result.candidates.push_back({0, std::move(values), strategy});
  }
}

SearchSpace Enumeration::run(std::size_t n_threads) && {
  const std::int64_t n = combinations(0, n_layout_knobs_);
  std::vector<LayoutResult> results(static_cast<std::size_t>(n));
  in_parallel(results.size(), n_threads,
              [&](std::size_t i) { results[i] = layout_at(static_cast<std::int64_t>(i)); });
  SearchSpace space;
  space.tokens_per_step = tokens_per_step_;
  for (LayoutResult& result : results) {
    std::ranges::move(result.refused, std::back_inserter(space.refused));
    for (Candidate& candidate : result.candidates) {
      candidate.layout = space.layouts.size();
      space.candidates.push_back(std::move(candidate));
    }
    if (result.layout) space.layouts.push_back(std::move(*result.layout));
  }
  space.knobs = std::move(knobs_);
  return space;
}

// Nothing can be: says what of that which is given is to blame.
[[noreturn]] void refuse_all(Request& request, const Subject& subject, const SearchSpace& space) {
  resolve(request, subject);
  const Refused& first = space.refused.front();
  throw InputError(fmt::format("nothing can be searched: {}", fmt::join(first.reasons, "; ")));
}

}  // namespace

SearchSpace enumerate(Request& request, const Subject& subject,
                      std::optional<std::int64_t> tokens_per_step, std::size_t n_threads) {
  const RunFile& given = request.fields();
  const EngineRules* rules = engine_named(given.engine.value_or(std::string(default_engine)));
  if (rules == nullptr) resolve(request, subject);  // says so, and what there is
  const Strategy as_given =
      tokens_of(given, given.devices.value_or(1) * subject.profile.ranks_per_device);
  if (tokens_per_step && *tokens_per_step < 1)
    request.problem("tokens_per_step", fmt::format("is {}, must be at least 1", *tokens_per_step));
  else if (tokens_per_step && *tokens_per_step % as_given.pack_length != 0)
    request.problem("tokens_per_step", fmt::format("{} tokens are not whole packs of {}",
                                                   *tokens_per_step, as_given.pack_length));
  request.finish();
  SearchSpace space = Enumeration(request, subject, *rules, knobs(given, subject, *rules),
                                  tokens_per_step.value_or(as_given.tokens_per_step()))
                          .run(n_threads);
  if (space.candidates.empty()) refuse_all(request, subject, space);
  return space;
}

Plan plan_of(const SearchSpace& space, const Candidate& candidate) {
  Plan plan = space.layout(candidate).plan;
  plan.strategy = candidate.strategy;
  return plan;
}

RunFile run_file_of(const SearchSpace& space, const Candidate& candidate) {
  RunFile run = space.layout(candidate).fields;
  const Strategy& s = candidate.strategy;
  run.engine = s.engine;
  run.recompute = Choice{ChoiceKind::number, s.recompute_layers};
  run.swap = Choice{ChoiceKind::number, s.swap_layers};
  run.loss_chunk = s.loss_chunk == s.loss_tokens() ? Choice{ChoiceKind::none, 0}
                                                   : Choice{ChoiceKind::number, s.loss_chunk};
  if (s.zero == 3) run.reshard_after_forward = s.reshards_layers;
  return run;
}

}  // namespace xt

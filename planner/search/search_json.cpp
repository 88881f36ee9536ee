#include "planner/estimate/run_cost.h"
#include "planner/search/search.h"

namespace xt {
namespace {

// The values of the first knobs, by name.
Json values_json(const SearchSpace& space, const Values& values) {
  Json result = Json::object();
  for (std::size_t knob = 0; knob < values.size(); ++knob)
    result.add(std::string(space.knobs[knob].name), space.knobs[knob].values[values[knob]].text);
  return result;
}

Json strategy_json(const Strategy& s) {
  return Json::object({{"expert_parallel", s.expert_parallel},
                       {"dispatch", dispatch_names[static_cast<std::size_t>(s.dispatch)]},
                       {"shard_ranks", s.shard_ranks == 0 ? s.ranks : s.shard_ranks},
                       {"sequence_parallel", s.sequence_parallel},
                       {"context_parallel", s.context_parallel},
                       {"tensor_parallel", s.tensor_parallel},
                       {"pipeline_parallel", s.pipeline_parallel},
                       {"virtual_stages", s.virtual_stages},
                       {"zero", s.zero},
                       {"gradient_accumulation", s.gradient_accumulation},
                       {"intra_layer_micro_batches", s.intra_layer_micro_batches},
                       {"swap_optimizer", s.swaps_optimizer},
                       {"recompute_layers", s.recompute_layers},
                       {"recompute_ops", s.recompute_ops.text()},
                       {"swap_layers", s.swap_layers},
                       {"reshard_after_forward", s.reshards_layers},
                       {"loss_chunk", s.loss_chunk}});
}

// What a simulated candidate loses on; null for the winner and where nothing was simulated.
Json loss_json(const Search& search, const Outcome& outcome) {
  if (!outcome.account) return Json();
  const Loss loss = largest_loss(*search.outcomes[*search.winner()].account, *outcome.account);
  if (loss.more.value <= 0) return Json();
  return Json::object({{"what", loss.what}, {"more_s", loss.more.value}});
}

Json candidate_json(const Search& search, std::size_t i) {
  const Candidate& candidate = search.space.candidates[i];
  const Outcome& outcome = search.outcomes[i];
  const Plan& plan = search.space.layout(candidate).plan;
  const auto or_null = [&](auto value) {
    return outcome.account ? Json(value(*outcome.account)) : Json();
  };
  // Null without train_tokens, and where nothing was simulated.
  const auto run = [&](auto value) {
    if (!outcome.account) return Json();
    const auto cost = run_cost(plan, outcome.account->step, 0);
    return cost ? value(*cost) : Json();
  };
  return Json::object(
      {{"strategy", strategy_json(candidate.strategy)},
       {"peak_memory_bytes", outcome.peak.value},
       {"device_memory_in_use_bytes", outcome.in_use.value},
       {"device_memory_in_use_p95_bytes", outcome.in_use_p95.value},
       {"host_memory_bytes", outcome.host.value},
       {"fits", outcome.fits},
       {"bound_s", outcome.fits ? Json(outcome.bound.value) : Json()},
       {"step_time_s", or_null([](const StepAccount& of) { return of.step.value; })},
       {"tokens_per_device_s",
        or_null([&](const StepAccount& of) { return tokens_per_device_s(plan, of.step); })},
       {"device_hours", run([](const RunCost& of) { return Json(of.device_hours); })},
       {"money", run([](const RunCost& of) { return of.money ? Json(*of.money) : Json(); })},
       {"reason", verdict_names[static_cast<std::size_t>(search.verdicts[i])]},
       {"loses_on", loss_json(search, outcome)}});
}

Json position(const std::optional<std::size_t>& of) {
  return of ? Json(static_cast<std::int64_t>(*of)) : Json();
}

Json reasons_json(const std::vector<std::string>& reasons) {
  return Json::Array(reasons.begin(), reasons.end());
}

Json knobs_json(const SearchSpace& space) {
  Json result = Json::object();
  for (const Knob& knob : space.knobs) {
    Json::Array values;
    for (const KnobValue& value : knob.values) values.push_back(value.text);
    result.add(std::string(knob.name), std::move(values));
  }
  return result;
}

Json alternatives_json(const Search& search) {
  Json::Array result;
  for (const Alternative& of : search.alternatives) {
    const Knob& knob = search.space.knobs[of.knob];
    result.push_back(Json::object({{"key", knob.name},
                                   {"value", knob.values[of.value].text},
                                   {"nearest", position(of.nearest)},
                                   {"refused", reasons_json(of.refused)}}));
  }
  return result;
}

Json refused_json(const SearchSpace& space) {
  Json::Array result;
  for (const Refused& of : space.refused)
    result.push_back(Json::object({{"values", values_json(space, of.values)},
                                   {"combinations", of.n},
                                   {"reasons", reasons_json(of.reasons)}}));
  return result;
}

}  // namespace

Json search_json(const Search& search) {
  const SearchSpace& space = search.space;
  const Plan& plan = space.layouts.front().plan;
  Json::Array ranked, candidates;
  for (const std::size_t i : search.ranked) ranked.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < space.candidates.size(); ++i)
    candidates.push_back(candidate_json(search, i));
  return Json::object({{"schema", "xt.search/1"},
                       {"model", plan.model_name},
                       {"machine", plan.machine_name},
                       {"engine", plan.strategy.engine},
                       {"devices", plan.devices},
                       {"pack_length", plan.strategy.pack_length},
                       {"sample_length", plan.data.lengths.text()},
                       {"tokens_per_step", space.tokens_per_step},
                       {"device_memory_bytes", plan.profile.memory.value.value},
                       {"searched", knobs_json(space)},
                       {"ranked", std::move(ranked)},
                       {"nearest_miss", position(nearest_miss(search))},
                       {"alternatives", alternatives_json(search)},
                       {"candidates", std::move(candidates)},
                       {"refused", refused_json(space)}});
}

}  // namespace xt

#include "costmodel/models/parameter_counts.h"
#include "planner/estimate/estimate.h"
#include "planner/estimate/run_cost.h"

namespace xt {
namespace {

// Null where the engine cuts layers itself.
Json layers_json(const Strategy& strategy) {
  if (strategy.pipeline_layers.empty()) return Json();
  Json::Array parts;
  for (const std::int64_t layers : strategy.pipeline_layers) parts.push_back(layers);
  return Json(std::move(parts));
}

Json strategy_json(const Plan& plan) {
  const Strategy& s = plan.strategy;
  const std::optional<std::string>& kernel = plan.profile.attention_kernel;
  return Json::object(
      {{"engine", s.engine},
       {"devices", plan.devices},
       {"ranks", s.ranks},
       {"expert_parallel", s.expert_parallel},
       {"dispatch", dispatch_names[static_cast<std::size_t>(s.dispatch)]},
       {"routing_imbalance", s.routing_imbalance},
       {"sequence_parallel", s.sequence_parallel},
       {"context_parallel", s.context_parallel},
       {"context_exchange", context_exchange_names[static_cast<std::size_t>(s.context_exchange)]},
       {"tensor_parallel", s.tensor_parallel},
       {"tensor_sequence_parallel", s.tensor_sequence_parallel},
       {"pipeline_parallel", s.pipeline_parallel},
       {"virtual_stages", s.virtual_stages},
       {"pipeline_schedule", chunk_order_names[static_cast<std::size_t>(s.pipeline_schedule)]},
       {"pipeline_layers", layers_json(s)},
       {"offload_share", s.offload_share},
       {"zero", s.zero},
       {"shard_ranks", s.shard_ranks == 0 ? s.ranks : s.shard_ranks},
       {"reshard_after_forward", s.reshards_layers},
       {"pack_length", s.pack_length},
       {"sample_length", s.sample_length},
       {"gradient_accumulation", s.gradient_accumulation},
       {"intra_layer_micro_batches", s.intra_layer_micro_batches},
       {"recompute_layers", s.recompute_layers},
       {"recompute_ops", s.recompute_ops.text()},
       {"recompute_early_stop", s.stops_early},
       {"swap_layers", s.swap_layers},
       {"optimizer", optimizer_names[static_cast<std::size_t>(s.optimizer)]},
       {"swap_optimizer", s.swaps_optimizer},
       {"offload_optimizer", s.offloads_optimizer},
       {"offload_parameters", s.offloads_parameters},
       {"loss_chunk", s.loss_chunk},
       {"compute_dtype", name(s.compute_dtype)},
       {"fp8_products", s.has_fp8_products},
       {"fp8_recipe", fp8_recipe_names[static_cast<std::size_t>(s.fp8_recipe)]},
       {"fp8_param_gather", s.gathers_fp8},
       {"tensor_parallel_overlap", s.tensor_parallel_overlap},
       {"expert_parallel_overlap", s.expert_parallel_overlap},
       {"communication_overlap", s.communication_overlap},
       {"memory_efficient_linear", s.memory_efficient_linear},
       {"return_logits", s.returns_logits},
       {"reduce_dtype", name(s.reduce_dtype)},
       {"reduce_bucket", s.reduce_bucket},
       {"compile", s.is_compiled},
       {"compile_loss", s.compiles_loss},
       {"fused_experts", s.fuses_experts},
       {"attention_kernel", kernel ? Json(*kernel) : Json()}});
}

// Null where all samples have one length.
Json data_json(const Plan& plan, const Estimate& estimate) {
  if (!estimate.data) return Json();
  const DataLoad& load = *plan.data.load;
  return Json::object(
      {{"sample_length", plan.data.lengths.text()},
       {"pack_level", pack_level_names[static_cast<std::size_t>(plan.data.pack_level)]},
       {"group_by_length", plan.data.groups_by_length},
       {"packs_drawn", load.n_packs},
       {"fill_ratio", load.fill_ratio},
       {"cut_ratio", load.cut_ratio},
       {"mean_squared_lengths", load.mean},
       {"largest_squared_lengths_grouped", load.largest_grouped},
       {"largest_squared_lengths_plain", load.largest_plain},
       {"step_time_balanced_s", estimate.data->balanced.value},
       {"step_time_grouped_s", estimate.data->grouped.value},
       {"step_time_plain_s", estimate.data->plain.value}});
}

Json breakdown_json(const MemoryPeak& peak) {
  Json result = Json::object();
  for (std::size_t i = 0; i < peak.by_category.size(); ++i)
    result.add(std::string(memory_category_names[i]), peak.by_category[i].value);
  return result;
}

Json communication_json(const StepAccount& account) {
  Json result = Json::object();
  for (std::size_t i = 0; i < n_traffic; ++i) {
    const TrafficTime& time = account.traffic[i];
    result.add(std::string(traffic_names[i]),
               Json::object({{"total_s", time.total.value},
                             {"exposed_s", time.exposed.value},
                             {"overlapped_ratio", time.overlapped_ratio()}}));
  }
  return result;
}

// Compute by phase, then what is added to it until the step is full.
Json time_json(const StepAccount& account) {
  Json result = Json::object();
  for (std::size_t i = 0; i < n_phases; ++i)
    result.add(std::string(phase_names[i]), account.phases[i].value);
  result.add("exposed", (account.step - account.compute - account.idle).value);
  result.add("idle", account.idle.value);
  return result;
}

// Null where there is one stage.
Json pipeline_json(const Estimate& estimate) {
  if (!estimate.pipeline) return Json();
  Json::Array stages;
  for (const StageAnswer& stage : estimate.pipeline->stages)
    stages.push_back(Json::object({{"layers", stage.layers},
                                   {"peak_memory_bytes", stage.peak.value},
                                   {"busy_s", stage.busy.value},
                                   {"idle_s", stage.idle.value}}));
  return Json::object({{"stages", std::move(stages)},
                       {"fullest_stage", static_cast<std::int64_t>(estimate.pipeline->fullest)},
                       {"bubble_s", estimate.pipeline->bubble.value},
                       {"transfer_s", estimate.pipeline->transfer.value}});
}

Json interval_json(const Estimate& estimate) {
  const Interval step = interval_80(estimate.account.step.value, estimate.deviation);
  return Json::array({step.low, step.high});
}

Json evidence_json(const Evidence& evidence) {
  Json grades = Json::object();
  Json::Array numbers;
  for (std::size_t i = 0; i < grade_names.size(); ++i)
    grades.add(std::string(grade_names[i]), evidence.by_grade[i]);
  for (const EvidenceShare& of : evidence.numbers)
    numbers.push_back(
        Json::object({{"number", of.number.path},
                      {"share", of.share},
                      {"grade", grade_names[static_cast<std::size_t>(of.number.from.grade)]},
                      {"source", of.number.from.source},
                      {"note", of.number.from.note ? Json(*of.number.from.note) : Json()}}));
  return Json::object({{"time_by_grade", std::move(grades)}, {"numbers", std::move(numbers)}});
}

Json device_json(const DeviceMemory& device) {
  return Json::object({{"allocated", device.allocated.value},
                       {"reserved_p50", device.reserved_p50.value},
                       {"reserved_p95", device.reserved_p95.value},
                       {"n_communicators", device.n_communicators},
                       {"communicators", device.communicators.value},
                       {"context", device.context.value},
                       {"p50", device.p50().value},
                       {"p95", device.p95().value},
                       {"memory", device.memory.value}});
}

}  // namespace

Json estimate_json(const Plan& plan, const Estimate& estimate) {
  const MemoryPeak& peak = estimate.timeline.device_memory;
  const Phase phase = estimate.schedule.op(peak.op).origin.phase;
  const ParameterCounts counts = parameter_counts(plan.architecture);
  return Json::object(
      {{"schema", "xt.estimate/1"},
       {"model", plan.model_name},
       {"parameters", counts.all},
       {"parameters_of_a_token", counts.of_a_token},
       {"further_tokens", plan.architecture.further_tokens},
       {"machine", plan.machine_name},
       {"strategy", strategy_json(plan)},
       {"data", data_json(plan, estimate)},
       {"step_time_s", estimate.account.step.value},
       {"step_time_interval_80_s", interval_json(estimate)},
       {"calibration_error_ratio", plan.calibration_error ? Json(*plan.calibration_error) : Json()},
       {"tokens_per_device_s", tokens_per_device_s(plan, estimate)},
       {"run", run_cost_json(run_cost(plan, estimate.account.step, estimate.deviation))},
       {"model_flops", estimate.model_flops.value},
       {"hardware_flops", estimate.hardware_flops.value},
       {"peak_flops_per_s", estimate.peak.value},
       {"mfu", estimate.mfu()},
       {"hfu", estimate.hfu()},
       {"peak_memory_bytes", peak.peak.value},
       {"reserved_memory_bytes", estimate.device.reserved_p50.value},
       {"device_memory_bytes", estimate.device.memory.value},
       {"device_bytes", device_json(estimate.device)},
       {"peak_phase", phase_names[static_cast<std::size_t>(phase)]},
       {"peak_op", peak_place(estimate)},
       {"memory_breakdown_bytes", breakdown_json(peak)},
       {"host_memory_bytes", estimate.timeline.host_memory.peak.value},
       {"fits", estimate.fits()},
       {"fits_p95", estimate.fit() == Fit::fits},
       {"verdict", fit_names[static_cast<std::size_t>(estimate.fit())]},
       {"communication", communication_json(estimate.account)},
       {"time_breakdown_s", time_json(estimate.account)},
       {"pipeline", pipeline_json(estimate)},
       {"evidence", evidence_json(estimate.evidence)},
       {"n_ops", static_cast<std::int64_t>(estimate.schedule.ops.size())}});
}

}  // namespace xt

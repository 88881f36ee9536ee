#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/models/parameter_counts.h"
#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/estimate/estimate.h"
#include "planner/estimate/run_cost.h"
#include "planner/lower/engine.h"

namespace xt {
namespace {

std::string gib(Bytes bytes) {
  return significant(static_cast<double>(bytes.value) / (1024.0 * 1024.0 * 1024.0), 4);
}

std::string samples_text(const PlanData& data) {
  if (const auto* fixed = std::get_if<FixedLength>(&data.lengths.shape))
    return fmt::format("{}-token samples", fixed->tokens);
  return fmt::format("{} samples, {} packs", data.lengths.text(),
                     pack_level_names[static_cast<std::size_t>(data.pack_level)]);
}

std::string data_lines(const Plan& plan, const Estimate& estimate) {
  if (!estimate.data) return "";
  const auto waiting = [&](Seconds step) { return percent(step / estimate.data->balanced - 1); };
  std::string text = fmt::format(
      "packs are ~{} full; waiting for the ranks with the longest samples adds ~{} to a step with "
      "packs grouped by length, ~{} with packs shuffled; {} drawn\n",
      percent(plan.data.load->fill_ratio), waiting(estimate.data->grouped),
      waiting(estimate.data->plain), plan.data.load->n_packs);
  if (plan.data.load->cut_ratio > 0)
    text += fmt::format("samples longer than a pack are cut: ~{} of all tokens are lost\n",
                        percent(plan.data.load->cut_ratio));
  return text;
}

// The model, how large it is, and how it is trained where that is not by the next token alone.
std::string model_text(const Plan& plan) {
  const auto [all, of_a_token] = parameter_counts(plan.architecture);
  std::string text = fmt::format("{} ({} × 10^9 parameters", plan.model_name, in_billions(all));
  if (of_a_token < all) text += fmt::format(", {} × 10^9 of a token", in_billions(of_a_token));
  text += ")";
  const std::int64_t n = plan.architecture.further_tokens;
  return n == 0 ? text : fmt::format("{} with {} further token{}", text, n, n == 1 ? "" : "s");
}

// What of the layout is not as in plain FSDP.
std::string layout_text(const Strategy& s) {
  std::string text;
  if (s.dispatch != Dispatch::all_to_all)
    text += fmt::format(" by {}", dispatch_names[static_cast<std::size_t>(s.dispatch)]);
  if (s.routing_imbalance > 1) text += fmt::format(", routing_imbalance {}", s.routing_imbalance);
  if (s.optimizer == Optimizer::muon) text += ", muon";
  if (s.swaps_optimizer) text += ", optimizer on the host";
  if (s.offloads_optimizer) text += ", updated on the host";
  if (s.offloads_parameters) text += ", weights on the host";
  if (s.sequence_parallel > 1) text += fmt::format(", sequence_parallel {}", s.sequence_parallel);
  if (s.context_parallel > 1)
    text += fmt::format(", context_parallel {} by {}", s.context_parallel,
                        context_exchange_names[static_cast<std::size_t>(s.context_exchange)]);
  if (s.tensor_parallel > 1)
    text += fmt::format(", tensor_parallel {}{}", s.tensor_parallel,
                        s.tensor_sequence_parallel ? "" : " without sequence parallel");
  if (s.tensor_parallel_overlap) text += " exchanging in pieces";
  if (s.pipeline_parallel > 1)
    text += fmt::format(", pipeline_parallel {}{}", s.pipeline_parallel,
                        s.virtual_stages == 1
                            ? ""
                            : fmt::format(" interleaved by virtual_stages {}", s.virtual_stages));
  if (s.pipeline_schedule != ChunkOrder::one_forward_one_backward)
    text += fmt::format(", pipeline_schedule {}",
                        chunk_order_names[static_cast<std::size_t>(s.pipeline_schedule)]);
  if (!s.pipeline_layers.empty())
    text += fmt::format(", pipeline_layers {}", fmt::join(s.pipeline_layers, ","));
  if (s.offload_share > 0) text += fmt::format(", offload_share {}", s.offload_share);
  if (s.zero < 3) text += fmt::format(", zero {}", s.zero);
  if (s.replicas() > 1)
    text += fmt::format(", {} replicas of {} shards", s.replicas(), s.shard_ranks);
  if (!s.reshards_layers) text += ", layers stay gathered";
  if (const EngineRules* rules = engine_named(s.engine);
      rules != nullptr && rules->recomputes_to_end && s.stops_early)
    text += ", recompute stops early";
  if (!s.memory_efficient_linear) text += ", products keep what was gathered";
  if (s.returns_logits) text += ", logits returned";
  if (const EngineRules* rules = engine_named(s.engine);
      rules != nullptr && s.reduce_dtype != rules->reduce_dtype)
    text += fmt::format(", gradients reduced in {}", name(s.reduce_dtype));
  if (const EngineRules* rules = engine_named(s.engine);
      rules != nullptr && s.reduce_bucket != rules->reduce_bucket)
    text += fmt::format(", gradients reduced by {}", s.reduce_bucket);
  if (!s.is_compiled) text += ", op by op";
  if (s.compiles_loss) text += ", loss compiled";
  if (!s.communication_overlap) text += ", no exchange overlaps";
  if (!s.fuses_experts) text += ", experts op by op";
  if (s.expert_parallel_overlap) text += ", micro-steps in pairs";
  if (s.intra_layer_micro_batches > 1)
    text += fmt::format(", {} packs in lock-step", s.intra_layer_micro_batches);
  return text;
}

std::string fp8_text(const Strategy& s) {
  if (!s.has_fp8_products) return "";
  if (!engine_named(s.engine)->has_transformer_engine) return " with fp8 products";
  return fmt::format(" with fp8 products by {} scaling{}",
                     fp8_recipe_names[static_cast<std::size_t>(s.fp8_recipe)],
                     s.gathers_fp8 ? ", gathered in fp8" : "");
}

std::string first_lines(const Plan& plan) {
  const Strategy& s = plan.strategy;
  const std::string ranks =
      plan.profile.ranks_per_device == 1 ? "" : fmt::format(" ({} ranks)", s.ranks);
  std::string text = fmt::format("{} on {} × {}{}, engine {}, packs of {} tokens of {}\n",
                                 model_text(plan), plan.devices, plan.profile.title, ranks,
                                 s.engine, s.pack_length, samples_text(plan.data));
  text += fmt::format(
      "{}{}, expert_parallel {}{}, gradient_accumulation {}, recompute {} layers{}, swap {}{}, "
      "loss_chunk {}{}\n\n",
      name(s.compute_dtype), fp8_text(s), s.expert_parallel, layout_text(s),
      s.gradient_accumulation, s.recompute_layers,
      s.recompute_ops.is_all() ? "" : " of " + s.recompute_ops.text(), s.swap_layers,
      plan.has_automatic_swap ? " (auto)" : "", s.loss_chunk,
      plan.has_automatic_chunk ? " (auto)" : "");
  return text;
}

std::string time_table(const StepAccount& account) {
  Table table({{"compute", {}, Align::left}, {"time", "ms"}, {"share"}});
  const auto row = [&](std::string_view label, Seconds time) {
    table.row(
        {std::string(label), "~" + significant(time.value * 1e3, 4), percent(time / account.step)});
  };
  for (std::size_t i = 0; i < n_phases; ++i)
    if (account.phases[i].value > 0) row(phase_names[i], account.phases[i]);
  row("exposed", account.step - account.compute - account.idle);
  row("idle", account.idle);
  row("step", account.step);
  return table.text();
}

std::string traffic_table(const StepAccount& account) {
  Table table({{"traffic", {}, Align::left}, {"runs", "ms"}, {"exposed", "ms"}, {"overlapped"}});
  bool has_any = false;
  for (std::size_t i = 0; i < n_traffic; ++i) {
    const TrafficTime& time = account.traffic[i];
    if (time.total.value <= 0) continue;
    has_any = true;
    table.row({std::string(traffic_names[i]), "~" + significant(time.total.value * 1e3, 4),
               "~" + significant(time.exposed.value * 1e3, 4), percent(time.overlapped_ratio())});
  }
  return has_any ? "\n" + table.text() : "";
}

// Waiting for other stages, and the stage of which memory is told below.
std::string pipeline_table(const Estimate& estimate) {
  if (!estimate.pipeline) return "";
  const PipelineAnswer& pipeline = *estimate.pipeline;
  Table table({{"stage"}, {"layers"}, {"peak", "GiB"}, {"busy", "ms"}, {"idle", "ms"}});
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const StageAnswer& stage = pipeline.stages[i];
    table.row({std::to_string(i), std::to_string(stage.layers), "~" + gib(stage.peak),
               "~" + significant(stage.busy.value * 1e3, 4),
               "~" + significant(stage.idle.value * 1e3, 4)});
  }
  return fmt::format(
      "\n{}stages wait ~{} of the step for each other, the mean over them, as are compute and "
      "traffic above;\na transfer takes up to ~{}; memory below is that of stage {}\n",
      table.text(), percent(pipeline.bubble / estimate.account.step), format(pipeline.transfer),
      pipeline.fullest);
}

std::string memory_table(const Estimate& estimate) {
  Table table({{"memory at the peak", {}, Align::left}, {"size", "GiB"}});
  const MemoryPeak& peak = estimate.timeline.device_memory;
  for (std::size_t i = 0; i < peak.by_category.size(); ++i)
    if (peak.by_category[i].value > 0)
      table.row({std::string(memory_category_names[i]), "~" + gib(peak.by_category[i])});
  table.row({"allocated", "~" + gib(peak.peak)});
  if (estimate.timeline.host_memory.peak.value > 0)
    table.row({"host", "~" + gib(estimate.timeline.host_memory.peak)});
  return table.text();
}

// From what is allocated to what the device must have, in the median run and in one of twenty.
std::string device_table(const DeviceMemory& device) {
  Table table({{"memory of the device", {}, Align::left}, {"P50", "GiB"}, {"P95", "GiB"}});
  const auto row = [&](std::string label, Bytes p50, Bytes p95) {
    table.row({std::move(label), "~" + gib(p50), "~" + gib(p95)});
  };
  row("reserved", device.reserved_p50, device.reserved_p95);
  if (device.communicators.value > 0)
    row(fmt::format("{} communicator{}", device.n_communicators,
                    device.n_communicators == 1 ? "" : "s"),
        device.communicators, device.communicators);
  if (device.context.value > 0) row("context", device.context, device.context);
  row("in use", device.p50(), device.p95());
  table.row({"of", gib(device.memory), gib(device.memory)});
  return table.text();
}

std::string verdict(const Estimate& estimate, const Style& style) {
  const DeviceMemory& device = estimate.device;
  const std::string where = peak_place(estimate);
  const std::string in_use =
      fmt::format("~{} in use, ~{} in one run of twenty, of {} per rank; the peak is at {}\n",
                  format(device.p50()), format(device.p95()), format(device.memory), where);
  switch (estimate.fit()) {
    case Fit::fits:
      return style.painted(Meaning::good, "fits") + ": " + in_use;
    case Fit::at_risk:
      return fmt::format("{}: one run in twenty does not fit; {}",
                         style.painted(Meaning::warn, "at risk"), in_use);
    case Fit::does_not_fit:
      break;
  }
  if (estimate.timeline.host_memory.peak > estimate.host_memory)
    return fmt::format("{}: swapping takes ~{} of host memory per rank, there are {}\n",
                       style.painted(Meaning::bad, "does not fit"),
                       format(estimate.timeline.host_memory.peak), format(estimate.host_memory));
  return fmt::format("{} by ~{}: {}", style.painted(Meaning::bad, "does not fit"),
                     format(device.p50() - device.memory), in_use);
}

std::string interval_line(const Plan& plan, const Estimate& estimate) {
  const Interval step = interval_80(estimate.account.step.value, estimate.deviation);
  const Interval tokens = interval_80(tokens_per_device_s(plan, estimate), estimate.deviation);
  return fmt::format(
      "  80 % interval: {} to {} a step, {} to {} tokens; {}\n", format(Seconds(step.low)),
      format(Seconds(step.high)), significant(tokens.low, 4), significant(tokens.high, 4),
      plan.calibration_error ? "from the error of the calibration on plans it was not fitted to"
                             : "from the grades of the numbers below, the schedule taken as right");
}

std::string evidence_line(const Evidence& evidence) {
  std::string text = "time rests on numbers that are";
  for (std::size_t i = 0; i < grade_names.size(); ++i)
    if (evidence.by_grade[i] >= 0.0005)
      text += fmt::format(" {} {},", grade_names[i], percent(evidence.by_grade[i]));
  text.back() = ';';
  text += " the rest is idle\n";
  const EvidenceShare* worst = weakest_that_matters(evidence);
  if (worst != nullptr && worst->number.from.grade != Grade::measured) {
    const Provenance& from = worst->number.from;
    text += fmt::format("  the weakest that matters, behind {}: {}, {} from {}{}\n",
                        percent(worst->share), worst->number.path,
                        grade_names[static_cast<std::size_t>(from.grade)], from.source,
                        from.note ? ": " + *from.note : "");
  }
  return text;
}

}  // namespace

std::string estimate_text(const Plan& plan, const Estimate& estimate, const Style& style) {
  std::string text = first_lines(plan);
  text += time_table(estimate.account);
  text += traffic_table(estimate.account);
  text += pipeline_table(estimate);
  text += "\n" + memory_table(estimate) + "\n" + device_table(estimate.device) + "\n";
  text += data_lines(plan, estimate);
  text += fmt::format("~{} a step, ~{} tokens per device per second, MFU ~{}, HFU ~{}\n",
                      format(estimate.account.step),
                      significant(tokens_per_device_s(plan, estimate), 4), percent(estimate.mfu()),
                      percent(estimate.hfu()));
  text += fmt::format(
      "  MFU counts {} of {}{} per rank the Megatron way: causal half of attention, "
      "no router, no recompute\n",
      format(estimate.model_flops), format(estimate.peak),
      plan.strategy.has_fp8_products ? " in bf16, though products run in fp8," : "");
  text += interval_line(plan, estimate);
  text += run_cost_text(plan, run_cost(plan, estimate.account.step, estimate.deviation));
  return text + evidence_line(estimate.evidence) + verdict(estimate, style);
}

}  // namespace xt

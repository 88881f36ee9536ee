#include "planner/cli/plan_directory.h"

#include "costmodel/document/writer.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/timeline_lines.h"
#include "costmodel/io/yaml.h"

namespace xt {
namespace {

PlanPrediction prediction_of(const Plan& plan, const Estimate& answer) {
  PlanPrediction prediction;
  const MemoryPeak& peak = answer.timeline.device_memory;
  prediction.step_time_s = answer.account.step.value;
  prediction.tokens_per_device_s = tokens_per_device_s(plan, answer);
  prediction.mfu = answer.mfu();
  prediction.peak_memory_bytes = peak.peak.value;
  for (std::size_t i = 0; i < peak.by_category.size(); ++i)
    prediction.memory_breakdown_bytes.entries.emplace_back(memory_category_names[i],
                                                           peak.by_category[i].value);
  for (std::size_t i = 0; i < n_traffic; ++i)
    prediction.communication.entries.emplace_back(
        traffic_names[i], PlanTraffic{answer.account.traffic[i].total.value,
                                      answer.account.traffic[i].exposed.value});
  return prediction;
}

PlanFile plan_file(const Plan& plan, const Estimate& answer) {
  const Strategy& s = plan.strategy;
  PlanFile file;
  file.schedule_digest = digest_text(digest(answer.schedule));
  file.model_name = plan.model_name;
  file.model_type = plan.architecture.model_type;
  file.vocab_size = plan.architecture.vocab_size;
  file.machine_name = plan.machine_name;
  file.profile_digest = digest(plan.profile);
  file.ranks_per_device = plan.profile.ranks_per_device;
  file.engine = s.engine;
  file.ranks = s.ranks;
  file.expert_parallel = s.expert_parallel;
  file.pack_length = s.pack_length;
  file.sample_length = s.sample_length;
  file.pack_level = plan.data.pack_level;
  file.groups_by_length = plan.data.groups_by_length;
  file.gradient_accumulation = s.gradient_accumulation;
  file.intra_layer_micro_batches = s.intra_layer_micro_batches;
  file.sequence_parallel = s.sequence_parallel;
  file.context_parallel = s.context_parallel;
  file.tensor_parallel = s.tensor_parallel;
  file.zero = s.zero;
  file.shard_ranks = s.shard_ranks == 0 ? s.ranks : s.shard_ranks;
  file.recompute_layers = s.recompute_layers;
  file.swap_layers = s.swap_layers;
  file.loss_chunk = s.loss_chunk;
  file.compute_dtype = s.compute_dtype;
  file.optimizer = plan.optimizer;
  file.seed = plan.seed;
  file.model_flops = answer.model_flops.value;
  file.peak_flops_per_s = answer.peak.value;
  file.host_memory_bytes = plan.profile.host_memory.value.value;
  file.prediction = prediction_of(plan, answer);
  return file;
}

}  // namespace

void check_plan_directory(const std::filesystem::path& out, Overwrite overwrite) {
  check_overwrite(out / plan_file_name, overwrite);
}

void write_plan_directory(const std::filesystem::path& out, const RunFile& fields, const Plan& plan,
                          const Estimate& answer, Overwrite overwrite) {
  check_plan_directory(out, overwrite);
  create_folder(out);
  write_schedule(out / schedule_file_name, answer.schedule, Overwrite::allow);
  write_timelines(out / predicted_file_name, std::span(&answer.timeline, 1), Overwrite::allow);
  write_file(out / "profile.yaml", to_yaml(write(plan.profile)), Overwrite::allow);
  if (!plan.model_file.empty())
    write_file(out / model_config_file_name, read_file(plan.model_file), Overwrite::allow);
  write_file(out / "run.yaml", to_yaml(write(fields)), Overwrite::allow);
  write_plan(out, plan_file(plan, answer), overwrite);
}

}  // namespace xt

#include "executor/train/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/json.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/ir/verify.h"
#include "costmodel/units/parse.h"
#include "executor/train/host_memory.h"
#include "executor/train/parameters.h"

namespace xt {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string message,
                         std::string hint = {}) {
  throw InputError({error_in(path.string(), std::move(message), std::move(hint))});
}

std::int64_t step_number(std::string_view text, std::int64_t steps) {
  const Parsed<std::int64_t> step = parse_integer(text);
  if (!step.value)
    throw InputError(fmt::format("--record-steps: `{}` is not a step", text),
                     "write steps as `3`, `2,5` or `3-6`");
  if (*step.value < 1 || *step.value > steps)
    throw InputError(
        fmt::format("--record-steps: step {} is not one of 1 to {}", *step.value, steps),
        "pass more --steps, or record earlier ones");
  return *step.value;
}

void check_executable(const std::filesystem::path& path, const PlanFile& plan, std::int64_t ranks) {
  if (plan.engine != "xt_run")
    refuse(path,
           fmt::format("is a step of engine `{}`, which is priced and not executed", plan.engine),
           "plan with `--engine xt_run`");
  if (plan.compute_dtype != DType::fp32 && plan.compute_dtype != DType::bf16)
    refuse(path,
           fmt::format("computes in {}; xt-run computes in fp32 or bf16", name(plan.compute_dtype)),
           "plan with `--compute-dtype bf16`");
  if (plan.ranks != ranks)
    refuse(path, fmt::format("is for {} ranks, this run has {}", plan.ranks, ranks),
           fmt::format("start {} ranks (`--nproc {}`), or make a plan for {}", plan.ranks,
                       plan.ranks, ranks));
}

/// The numbers of a run may be written again from the checkpoint on, and are another run's unless
/// they begin with those that the checkpoint has.
void check_metrics(const RunRequest& request, const FoundCheckpoints& found) {
  const std::filesystem::path path = request.directory / metrics_file_name;
  const bool goes_on = request.checkpoints.resumes && file_exists(path) &&
                       read_file(path).starts_with(found.whole.front().metrics);
  if (!goes_on) check_overwrite(path, request.overwrite);
}

/// A run that goes on behind `step` does none of the steps before again.
void check_recorded(const std::set<std::int64_t>& steps, std::int64_t step) {
  if (steps.empty() || *steps.begin() > step) return;
  throw InputError(fmt::format("--record-steps: step {} is done: the run goes on behind step {}",
                               *steps.begin(), step),
                   fmt::format("record from step {} on", step + 1));
}

void check_checkpoints(const CheckpointChoices& choices, Overwrite overwrite) {
  if (choices.every == 0 || choices.resumes || overwrite == Overwrite::allow) return;
  if (CheckpointStore(choices.folder).steps().empty()) return;
  refuse(choices.folder, "holds checkpoints of an earlier run",
         "pass `--resume` to go on from them, or `--force` to start anew and replace them");
}

PackingChoices packing_of(const PlanFile& plan) {
  return {plan.pack_length, plan.sample_length, plan.pack_level,
          static_cast<std::uint64_t>(plan.seed)};
}

DataIdentity identity_of(const PlanFile& plan, const Documents& documents) {
  return {plan.seed,          plan.pack_length,      plan.sample_length,
          plan.pack_level,    plan.groups_by_length, documents.size(),
          n_tokens(documents)};
}

void check_outputs(const RunRequest& request, const FoundCheckpoints& found, std::int64_t ranks) {
  check_metrics(request, found);
  check_checkpoints(request.checkpoints, request.overwrite);
  if (!request.record_steps.empty())
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      check_overwrite(recording_path(request.directory, rank), request.overwrite);
  if (request.save_weights) check_weights_folder(*request.save_weights, request.overwrite);
}

}  // namespace

std::set<std::int64_t> parse_steps(std::string_view text, std::int64_t steps) {
  std::set<std::int64_t> numbers;
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    const std::size_t dash = item.find('-');
    const std::int64_t first = step_number(item.substr(0, dash), steps);
    const std::int64_t last =
        dash == std::string_view::npos ? first : step_number(item.substr(dash + 1), steps);
    if (last < first)
      throw InputError(fmt::format("--record-steps: `{}` ends before it starts", item));
    for (std::int64_t step = first; step <= last; ++step) numbers.insert(step);
    if (item.size() == text.size()) return numbers;
    text.remove_prefix(item.size() + 1);
  }
}

ExecutablePlan load_plan(const std::filesystem::path& directory, std::int64_t ranks) {
  ExecutablePlan result;
  result.plan = read_plan(directory);
  check_executable(directory / plan_file_name, result.plan, ranks);
  const std::filesystem::path path = directory / schedule_file_name;
  result.schedule = read_schedule(path);
  if (digest_text(digest(result.schedule)) != result.plan.schedule_digest)
    refuse(path, "is not the schedule that plan.json names", "make the plan again with xt-plan");
  if (result.schedule.ranks != result.plan.ranks || result.schedule.batch.tokens == no_buffer)
    refuse(path, "does not fit plan.json", "make the plan again with xt-plan");
  if (const std::vector<std::string> broken = verify(result.schedule); !broken.empty())
    refuse(path, fmt::format("breaks {} rules of schedules: {}", broken.size(), broken.front()),
           "make the plan again with xt-plan");
  return result;
}

RunInputs load_inputs(const RunRequest& request, std::int64_t ranks) {
  RunInputs inputs;
  inputs.plan = load_plan(request.directory, ranks);
  if (request.save_weights)
    inputs.model_config = parse_json(read_file(request.directory / model_config_file_name));
  inputs.documents = load_documents(request.data);
  check_host_memory(inputs.plan, request.directory, request.checkpoints.every > 0);
  const PlanFile& plan = inputs.plan.plan;
  inputs.packs = std::make_shared<const Packs>(inputs.documents, packing_of(plan), plan.vocab_size);
  (void)inputs.packs->pack(0);
  if (request.weights) {
    inputs.weights.emplace(*request.weights);
    check_weights(inputs.plan.schedule, *inputs.weights);
  }
  inputs.data = identity_of(plan, *inputs.documents);
  if (request.checkpoints.resumes) {
    const CheckpointStore store(request.checkpoints.folder);
    inputs.checkpoints = find_checkpoints(store);
    if (inputs.checkpoints.whole.empty()) refuse_to_resume(store, inputs.checkpoints);
    check_resumable(inputs.checkpoints.whole.front(), inputs.plan.schedule, inputs.data,
                    request.steps);
    check_recorded(request.record_steps, inputs.checkpoints.whole.front().file.position.step);
  }
  check_outputs(request, inputs.checkpoints, ranks);
  return inputs;
}

DealOptions deal_of(const PlanFile& plan) {
  return {plan.ranks / plan.sequence_parallel,
          plan.gradient_accumulation * plan.intra_layer_micro_batches,
          static_cast<std::uint64_t>(plan.seed)};
}

std::filesystem::path recording_path(const std::filesystem::path& directory, std::int64_t rank) {
  return directory /
         (rank == 0 ? std::string(measured_file_name) : fmt::format("measured.rank{}.jsonl", rank));
}

}  // namespace xt

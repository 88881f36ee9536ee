#include <fmt/format.h>

#include <utility>

#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "executor/cli/commands.h"
#include "executor/launch/threads.h"
#include "executor/train/host_memory.h"

namespace xt {
namespace {

/// What a dry run found, line by line.
class DryRun {
 public:
  DryRun(const TrainOptions& options, const RunRequest& request, int n_ranks)
      : options_(options),
        request_(request),
        inputs_(load_inputs(request, n_ranks)),
        n_ranks_(n_ranks) {}

  ExitCode answer() {
    add_plan();
    const bool fits = add_memory();
    add_data();
    add_start();
    add_outputs();
    print();
    return fits ? ExitCode::yes : ExitCode::no;
  }

 private:
  const PlanFile& plan() const { return inputs_.plan.plan; }
  void add(std::string what, std::string says) {
    lines_.emplace_back(std::move(what), std::move(says));
  }

  void add_plan() {
    add("plan", fmt::format("{}, {} in {}, packs of {}", plan().model_name, plan().engine,
                            name(plan().compute_dtype), plan().pack_length));
    add("ranks",
        fmt::format("{} on this host, {} threads each, {} cores", n_ranks_,
                    options_.threads.value_or(threads_per_rank(n_ranks_)), available_cores()));
  }

  /// Whether this host has as much as the ranks are predicted to take.
  bool add_memory() {
    if (!plan().prediction) return true;
    Bytes rank(plan().prediction->peak_memory_bytes);
    if (request_.checkpoints.every > 0) rank += snapshot_bytes(inputs_.plan.schedule);
    if (const std::optional<std::int64_t> limit = plan().host_memory_bytes)
      add("host memory", fmt::format("{} a rank, of {} that the plan allows",
                                     format(host_memory_needed(inputs_.plan.schedule,
                                                               request_.checkpoints.every > 0)),
                                     format(Bytes(*limit))));
    const Bytes all(rank.value * n_ranks_);
    const bool fits = all <= physical_memory();
    add("memory", fmt::format("~{} a rank, ~{} of {} on this host: {}", format(rank), format(all),
                              format(physical_memory()), fits ? "fits" : "does not fit"));
    return fits;
  }

  void add_data() {
    const std::int64_t packs_of_step = plan().ranks / plan().sequence_parallel *
                                       plan().gradient_accumulation *
                                       plan().intra_layer_micro_batches;
    add("data",
        fmt::format("{} documents of {} tokens, {} packs; a step takes {}", inputs_.data.documents,
                    inputs_.data.tokens, inputs_.data.tokens / plan().pack_length, packs_of_step));
  }

  void add_start() {
    std::int64_t first = 1;
    if (request_.checkpoints.resumes) {
      const FoundCheckpoint& found = first_whole();
      first = found.file.position.step + 1;
      add("start", fmt::format("{}, which is whole", found.path.string()));
    } else if (request_.weights) {
      add("start", fmt::format("weights of {}", request_.weights->string()));
    } else {
      add("start", fmt::format("weights drawn from seed {}", plan().seed));
    }
    add("trains", fmt::format("steps {} to {}", first, request_.steps));
  }

  /// Reads as much of the checkpoints as a run would.
  const FoundCheckpoint& first_whole() {
    FoundCheckpoints& found = inputs_.checkpoints;
    for (const std::string& note : found.damaged) fmt::print(stderr, "warning: {}\n", note);
    for (const FoundCheckpoint& one : found.whole) {
      const std::string wrong = difference(one.file, digests_of(one.state));
      if (wrong.empty()) {
        check_resumable(one, inputs_.plan.schedule, inputs_.data, request_.steps);
        return one;
      }
      found.damaged.push_back(damage_note(one.path, wrong));
      fmt::print(stderr, "warning: {}\n", found.damaged.back());
    }
    refuse_to_resume(CheckpointStore(request_.checkpoints.folder), found);
  }

  void add_outputs() {
    add("writes", (request_.directory / metrics_file_name).string());
    const CheckpointChoices& choices = request_.checkpoints;
    if (choices.every > 0)
      add("", fmt::format("{}/step-…, every {} steps, of which {} stay", choices.folder.string(),
                          choices.every, choices.keep));
    if (request_.save_weights) add("", request_.save_weights->string());
  }

  void print() const {
    if (options_.is_json) {
      Json document = Json::object({{"schema", "xt.dry_run/1"}});
      for (const auto& [what, says] : lines_)
        document.add(what.empty() ? "also_writes" : what, says);
      fmt::print("{}", document.pretty());
      return;
    }
    Table table({{"", "", Align::left}, {"", "", Align::left}});
    for (const auto& [what, says] : lines_) table.row({what, says});
    fmt::print("{}", table.text());
  }

  const TrainOptions& options_;
  const RunRequest& request_;
  RunInputs inputs_;
  int n_ranks_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace

ExitCode dry_run(const TrainOptions& options, const RunRequest& request, int n_ranks) {
  return DryRun(options, request, n_ranks).answer();
}

}  // namespace xt

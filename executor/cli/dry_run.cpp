#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "costmodel/ir/memory.h"
#include "costmodel/packing/imbalance.h"
#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "executor/cli/commands.h"
#include "executor/devices/device_choice.h"
#include "executor/launch/threads.h"
#include "executor/observe/run_record.h"
#include "executor/observe/xtuner_log.h"
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
    const bool fits_host = add_memory(), fits_device = add_device_memory();
    add_data();
    add_start();
    add_outputs();
    print();
    return fits_host && fits_device ? ExitCode::yes : ExitCode::no;
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
    Bytes rank = has_devices() ? peak_of(Space::host) : Bytes(plan().prediction->peak_memory_bytes);
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

  [[nodiscard]] bool has_devices() const { return request_.device == DeviceChoice::cuda; }

  /// Of one rank's buffers; what kernels take beside them is not known.
  [[nodiscard]] Bytes peak_of(Space space) const {
    const Schedule& schedule = inputs_.plan.schedule;
    return memory_peaks(schedule, assumed_bindings(schedule))[static_cast<std::size_t>(space)].peak;
  }

  /// Whether the devices of this host's ranks have as much as each is predicted to take.
  bool add_device_memory() {
    if (!has_devices()) return true;
    const std::vector<DeviceFacts> devices = cuda_devices().devices;
    const auto least = std::min_element(
        devices.begin(), devices.begin() + n_ranks_,
        [](const DeviceFacts& a, const DeviceFacts& b) { return a.memory < b.memory; });
    const Bytes rank = peak_of(Space::device);
    const bool fits = rank <= least->memory;
    add("device memory",
        fmt::format("~{} a rank in buffers, of {} of {}: {}", format(rank), format(least->memory),
                    least->name, fits ? "fits" : "does not fit"));
    return fits;
  }

  void add_data() {
    const DealOptions deal = deal_of(plan());
    add("data", fmt::format("{} documents of {} tokens, {} packs that are {} full; a step takes {}",
                            inputs_.data.documents, inputs_.data.tokens, inputs_.packs->size(),
                            percent(inputs_.packs->fill_ratio()), deal.global_batch()));
    if (deal.ranks > 1) add_balance(deal);
  }

  /// How much more attention the most loaded rank has, with these data.
  void add_balance(const DealOptions& deal) {
    const std::vector<PackLayout>& packs = inputs_.packs->layouts();
    const auto slowest = [&](const std::vector<std::uint32_t>& order) {
      const Takers takers{deal.ranks, deal.packs_per_rank, plan().intra_layer_micro_batches};
      return imbalance(packs, order, takers).squared_lengths.imbalance();
    };
    const double grouped = slowest(grouped_order(grouping_keys(packs, plan().pack_level), deal));
    const double plain = slowest(plain_order(packs.size(), deal));
    add("balance", fmt::format("attention of the most loaded rank is {:.2f} times the mean; {} "
                               "grouping by length {:.2f} times",
                               plan().groups_by_length ? grouped : plain,
                               plan().groups_by_length ? "without" : "with",
                               plan().groups_by_length ? plain : grouped));
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
    add("", (request_.directory / run_file_name).string());
    add("", log_path(request_.directory, 0).parent_path().string());
    const CheckpointChoices& choices = request_.checkpoints;
    if (choices.every > 0)
      add("", fmt::format("{}/step-…, every {} steps, of which {} stay", choices.folder.string(),
                          choices.every, choices.keep));
    if (request_.save_weights) add("", request_.save_weights->string());
  }

  void print() const {
    if (options_.is_json) {
      Json document = Json::object({{"schema", "xt.dry_run/2"}});
      Json writes = Json::array();
      for (const auto& [what, says] : lines_)
        if (what == "writes" || what.empty())
          writes.push_back(says);
        else
          document.add(what, says);
      fmt::print("{}", document.add("writes", writes).pretty());
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

#include "executor/train/run.h"

#include <algorithm>
#include <numeric>

#include "costmodel/diagnostics/check.h"
#include "costmodel/io/json.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/timeline_lines.h"
#include "executor/data/pack_feed.h"
#include "executor/runtime/allocator.h"
#include "executor/train/host_memory.h"
#include "executor/train/parameters.h"

namespace xt {
namespace {

std::int64_t nanoseconds(WallTime time) {
  return std::chrono::duration_cast<Duration>(time.time_since_epoch()).count();
}

// What transformers is to make of the weights; keys that are ours alone are left out.
Json published_config(const Json& config, DType dtype) {
  Json result = Json::object();
  for (const JsonMember& member : config.members())
    if (member.key != "torch_dtype" && member.key != "published_parameters" &&
        member.key != "source")
      result.add(member.key, member.value);
  result.add("torch_dtype", dtype == DType::bf16 ? "bfloat16" : "float32");
  return result;
}

/// Numbers that ranks tell each other of a step.
constexpr std::size_t n_told = 7;

/// The run between its first step and its last.
class Run {
 public:
  Run(const RunRequest& request, const RankEnvironment& place, RunSession& session,
      const RunListener& listener)
      : request_(request), place_(place), session_(session), listener_(listener) {}

  std::vector<StepMetrics> train() {
    meet();
    start();
    begin_checkpoints();
    session_.has_started = true;
    if (request_.stall_timeout_s > 0)
      session_.watcher = std::make_unique<Watcher>(
          schedule(), session_.trainer->activity(), *session_.rendezvous,
          std::chrono::seconds(request_.stall_timeout_s), listener_.on_stall);
    const Duration skew = session_.world->clock_skew(place_.local_world_size == place_.world_size);
    std::optional<LineFile> metrics;
    if (place_.rank == 0)
      metrics.emplace(lines_.path, resumed_ ? Overwrite::allow : request_.overwrite, former_lines_);
    std::vector<StepMetrics> steps;
    while (position().step < request_.steps) {
      StepMetrics done = step(skew);
      if (metrics) note(*metrics, done);
      listener_.on_step(done);
      if (metrics) steps.push_back(std::move(done));
      checkpoint();
    }
    finish();
    return steps;
  }

 private:
  const RunPosition& position() const { return session_.trainer->position(); }
  const PlanFile& plan() const { return session_.inputs.plan.plan; }
  const Schedule& schedule() const { return session_.inputs.plan.schedule; }

  /// Finds the other ranks; after that all of them know that their inputs are good.
  void meet() {
    session_.rendezvous = std::make_unique<Rendezvous>(place_);
    session_.network = std::make_unique<GlooNetwork>(*session_.rendezvous);
    session_.world = std::make_unique<World>(all_ranks("world"));
    if (const std::optional<Bytes> most =
            swap_limit(plan(), schedule(), request_.checkpoints.every > 0))
      limit_space(Space::host, *most);
    feed_ = std::make_shared<PackFeed>(
        session_.inputs.packs,
        FeedChoices{deal_of(plan()), plan().groups_by_length, plan().pack_level});
    std::unique_ptr<Device> device =
        make_device(request_.device, place_.local_rank, place_.local_world_size);
    session_.device_network = device->network(*session_.rendezvous);
    Network& network = session_.device_network ? *session_.device_network : *session_.network;
    session_.trainer = std::make_unique<Trainer>(
        schedule(), kernels_for(request_.device),
        make_communicators(schedule(), network, place_.rank), place_.rank,
        [feed = feed_](std::int64_t index) { return feed->pack(index); }, plan().optimizer,
        std::move(device));
    if (session_.board) session_.trainer->report_to(session_.board->of(place_.local_rank));
  }

  void start() {
    if (request_.checkpoints.resumes) return resume();
    BufferMemory& memory = session_.trainer->state().memory;
    if (session_.inputs.weights)
      load_parameters(schedule(), memory, place_.rank, *session_.inputs.weights);
    else
      initialise_parameters(schedule(), memory, place_.rank, plan().seed);
  }

  /// All ranks read, and all come to the same verdict: what a damaged checkpoint gave is replaced
  /// by what the one before it has.
  void resume() {
    FoundCheckpoints& found = session_.inputs.checkpoints;
    for (const std::string& note : found.damaged) listener_.on_warning(note);
    for (const FoundCheckpoint& one : found.whole) {
      const StateDigests own =
          load_state(schedule(), session_.trainer->state().memory, place_.rank, one.state);
      const std::string wrong = difference(one.file, sum_over_ranks(*session_.world, own));
      if (wrong.empty()) return go_on_from(one);
      found.damaged.push_back(damage_note(one.path, wrong));
      listener_.on_warning(found.damaged.back());
    }
    refuse_to_resume(CheckpointStore(request_.checkpoints.folder), found);
  }

  void go_on_from(const FoundCheckpoint& found) {
    check_resumable(found, schedule(), session_.inputs.data, request_.steps);
    session_.trainer->resume(found.file.position);
    feed_->enter(found.file.epoch);
    former_lines_ = found.metrics;
    lines_.add(former_lines_);
    resumed_ = found.file.position.step;
    listener_.on_resumed(found.file.position);
  }

  void begin_checkpoints() {
    const CheckpointChoices& choices = request_.checkpoints;
    if (choices.every == 0) return;
    std::vector<std::int64_t> kept;
    for (const FoundCheckpoint& found : session_.inputs.checkpoints.whole)
      if (found.file.position.step <= resumed_) kept.insert(kept.begin(), found.file.position.step);
    session_.checkpointer = std::make_unique<Checkpointer>(
        CheckpointStore(choices.folder), schedule(), World(all_ranks("checkpoints")),
        std::move(kept), static_cast<std::size_t>(choices.keep));
  }

  /// Begins a checkpoint if one is due: every so many steps, and behind the last.
  void checkpoint() {
    if (!session_.checkpointer) return;
    session_.checkpointer->check();
    const std::int64_t step = position().step;
    if (step % request_.checkpoints.every != 0 && step != request_.steps) return;
    CheckpointFile file;
    file.position = position();
    file.data = session_.inputs.data;
    file.epoch = feed_->epoch();
    session_.checkpointer->begin(session_.trainer->state().memory, std::move(file), lines_);
  }

  void note(LineFile& metrics, const StepMetrics& step) {
    const std::string line = metrics_line(step);
    metrics.write(line);
    lines_.add(line + "\n");
  }

  std::unique_ptr<Communicator> all_ranks(std::string_view name) {
    std::vector<int> ranks(static_cast<std::size_t>(place_.world_size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return session_.network->group(name, ranks);
  }

  StepMetrics step(Duration skew) {
    const StepOutcome outcome = session_.trainer->step();
    const Timeline& timeline = outcome.result.timeline;
    const MemoryUsage usage = session_.trainer->state().device->usage();
    const std::array<std::int64_t, n_told> own{makespan(timeline).count(),
                                               timeline.device_memory.peak.value,
                                               timeline.host_memory.peak.value,
                                               nanoseconds(outcome.result.began) - skew.count(),
                                               allocated_memory(usage).value,
                                               resident_memory().value,
                                               usage.reserved.value};
    const std::vector<std::int64_t> all = session_.world->gather(own);
    if (!first_began_) first_began_ = all[3];
    if (request_.record_steps.contains(outcome.step))
      recorded_ +=
          timeline_lines(timeline, Duration(own[3] - all[3]), Duration(all[3] - *first_began_));
    StepMetrics metrics = metrics_of(outcome, all);
    metrics.own = {to_seconds(makespan(timeline)),
                   outcome.data_time,
                   feed_->epoch().number + 1,
                   outcome.tokens,
                   outcome.slots,
                   outcome.attention_ratio,
                   timeline.device_memory.peak,
                   timeline.host_memory.peak,
                   usage.reserved};
    metrics.beside_memory = usage.beside;
    return metrics;
  }

  StepMetrics metrics_of(const StepOutcome& outcome, const std::vector<std::int64_t>& all) const {
    StepMetrics metrics;
    metrics.step = outcome.step;
    metrics.loss = outcome.loss;
    metrics.grad_norm = outcome.grad_norm;
    metrics.learning_rate = outcome.learning_rate;
    metrics.balance_loss = outcome.balance_loss;
    metrics.is_skipped = outcome.is_skipped;
    Duration longest{};
    for (std::size_t i = 0; i < all.size(); i += n_told) {
      longest = std::max(longest, Duration(all[i]));
      metrics.peak_memory = std::max(metrics.peak_memory, Bytes(all[i + 1]));
      metrics.host_memory = std::max(metrics.host_memory, Bytes(all[i + 2]));
      metrics.allocated_memory += Bytes(all[i + 4]);
      metrics.resident_memory += Bytes(all[i + 5]);
      metrics.reserved_memory += Bytes(all[i + 6]);
    }
    metrics.time = to_seconds(longest);
    metrics.tokens_per_device_s = plan().tokens_per_device() / metrics.time.value;
    metrics.mfu = mfu_of(plan(), metrics.time);
    metrics.traffic = account(schedule(), outcome.result.timeline).traffic;
    metrics.peak_by_category = outcome.result.timeline.device_memory.by_category;
    return metrics;
  }

  static std::string metrics_line(const StepMetrics& metrics) {
    Json traffic = Json::object();
    for (std::size_t i = 0; i < n_traffic; ++i)
      traffic.add(std::string(traffic_names[i]),
                  Json::object({{"total_s", metrics.traffic[i].total.value},
                                {"exposed_s", metrics.traffic[i].exposed.value}}));
    Json line = Json::object({{"schema", "xt.metrics/1"}});
    add_step(line, metrics);
    line.add("communication", traffic);
    return line.dump();
  }

  void finish() {
    session_.watcher.reset();
    if (session_.checkpointer) session_.checkpointer->wait();
    if (!recorded_.empty())
      write_file(recording_path(request_.directory, place_.rank), recorded_, request_.overwrite);
    if (request_.save_weights) save_weights();
    session_.world->wait();  // nobody leaves while others still need the group
  }

  /// Each rank writes what it has; nothing is seen of it until all have.
  void save_weights() {
    const DType dtype = request_.save_dtype.value_or(plan().compute_dtype);
    WeightsFolder folder(*request_.save_weights, published_tensors(schedule(), dtype));
    if (place_.rank == 0) folder.begin();
    session_.world->wait();
    save_parameters(schedule(), session_.trainer->state().memory, place_.rank, folder);
    folder.flush();
    session_.world->wait();
    if (place_.rank != 0) return;
    folder.publish();
    write_file(*request_.save_weights / model_config_file_name,
               published_config(session_.inputs.model_config, dtype).pretty(), Overwrite::allow);
    if (request_.weights) copy_tokenizer(*request_.weights, *request_.save_weights);
  }

  const RunRequest& request_;
  const RankEnvironment& place_;
  RunSession& session_;
  const RunListener& listener_;
  std::shared_ptr<PackFeed> feed_;
  std::string recorded_;
  std::string former_lines_;                                    ///< of the steps before it resumed
  WrittenLines lines_{request_.directory / metrics_file_name};  ///< of all so far, of rank 0
  std::optional<std::int64_t> first_began_;  ///< the first step, on rank 0, in ns of its clock
  std::int64_t resumed_ = 0;                 ///< the step behind which the run goes on
};

}  // namespace

std::vector<StepMetrics> run_steps(const RunRequest& request, const RankEnvironment& place,
                                   RunSession& session, const RunListener& listener) {
  return Run(request, place, session, listener).train();
}

}  // namespace xt

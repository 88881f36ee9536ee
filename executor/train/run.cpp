#include "executor/train/run.h"

#include <algorithm>
#include <numeric>

#include "costmodel/diagnostics/check.h"
#include "costmodel/io/json.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/timeline_lines.h"
#include "executor/runtime/allocator.h"
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

double mfu_of(const PlanFile& plan, Seconds time) {
  if (plan.peak_flops_per_s <= 0) return 0;
  return plan.model_flops / (plan.peak_flops_per_s * time.value);
}

/// The run between its first step and its last.
class Run {
 public:
  Run(const RunRequest& request, const RankEnvironment& place, RunSession& session)
      : request_(request), place_(place), session_(session) {}

  std::vector<StepMetrics> train(const OnStep& on_step) {
    meet();
    const Duration skew = session_.world->clock_skew(place_.local_world_size == place_.world_size);
    std::optional<LineFile> metrics;
    if (place_.rank == 0)
      metrics.emplace(request_.directory / metrics_file_name, request_.overwrite);
    std::vector<StepMetrics> steps;
    for (std::int64_t i = 0; i < request_.steps; ++i) {
      steps.push_back(step(skew));
      if (metrics) metrics->write(metrics_line(steps.back()));
      on_step(steps.back());
    }
    finish();
    return steps;
  }

 private:
  const PlanFile& plan() const { return session_.inputs.plan.plan; }
  const Schedule& schedule() const { return session_.inputs.plan.schedule; }

  /// Finds the other ranks; after that all of them know that their inputs are good.
  void meet() {
    session_.rendezvous = std::make_unique<Rendezvous>(place_);
    session_.network = std::make_unique<GlooNetwork>(*session_.rendezvous);
    std::vector<int> ranks(static_cast<std::size_t>(place_.world_size));
    std::iota(ranks.begin(), ranks.end(), 0);
    session_.world = std::make_unique<World>(session_.network->group("world", ranks));
    const auto packs = std::make_shared<Packs>(
        session_.inputs.documents, PackShape{plan().pack_length, plan().sample_length},
        plan().vocab_size, static_cast<std::uint64_t>(plan().seed));
    session_.trainer = std::make_unique<Trainer>(
        schedule(), cpu_kernels(), make_communicators(schedule(), *session_.network, place_.rank),
        place_.rank, [packs](std::int64_t index) { return packs->pack(index); }, plan().optimizer);
    BufferMemory& memory = session_.trainer->state().memory;
    if (session_.inputs.weights)
      load_parameters(schedule(), memory, place_.rank, *session_.inputs.weights);
    else
      initialise_parameters(schedule(), memory, place_.rank, plan().seed);
  }

  StepMetrics step(Duration skew) {
    const StepOutcome outcome = session_.trainer->step();
    const Timeline& timeline = outcome.result.timeline;
    const std::array<std::int64_t, 4> own{
        makespan(timeline).count(), timeline.device_memory.peak.value,
        timeline.host_memory.peak.value, nanoseconds(outcome.result.began) - skew.count()};
    const std::vector<std::int64_t> all = session_.world->gather(own);
    if (request_.record_steps.contains(outcome.step))
      recorded_ += timeline_lines(timeline, Duration(own[3] - all[3]));
    return metrics_of(outcome, all);
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
    for (std::size_t i = 0; i < all.size(); i += 4) {
      longest = std::max(longest, Duration(all[i]));
      metrics.peak_memory = std::max(metrics.peak_memory, Bytes(all[i + 1]));
      metrics.host_memory = std::max(metrics.host_memory, Bytes(all[i + 2]));
    }
    metrics.time = to_seconds(longest);
    metrics.tokens_per_device_s = plan().tokens_per_device() / metrics.time.value;
    metrics.mfu = mfu_of(plan(), metrics.time);
    metrics.reserved_memory = memory_usage().reserved;
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
    Json line = Json::object({{"schema", "xt.metrics/1"},
                              {"step", metrics.step},
                              {"loss", metrics.loss},
                              {"grad_norm", metrics.grad_norm},
                              {"learning_rate", metrics.learning_rate},
                              {"skipped", metrics.is_skipped},
                              {"step_time_s", metrics.time.value},
                              {"tokens_per_device_s", metrics.tokens_per_device_s},
                              {"mfu", metrics.mfu},
                              {"peak_memory_bytes", metrics.peak_memory.value},
                              {"host_memory_bytes", metrics.host_memory.value},
                              {"reserved_memory_bytes", metrics.reserved_memory.value},
                              {"communication", traffic}});
    if (metrics.balance_loss) line.add("balance_loss", *metrics.balance_loss);
    return line.dump();
  }

  void finish() {
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
  std::string recorded_;
};

template <typename T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2.0;
}

}  // namespace

std::vector<StepMetrics> run_steps(const RunRequest& request, const RankEnvironment& place,
                                   RunSession& session, const OnStep& on_step) {
  return Run(request, place, session).train(on_step);
}

namespace {

// One step's loss says as much of its packs as of the model.
double final_loss(std::span<const StepMetrics> steps) {
  const auto last = steps.last(std::max<std::size_t>(1, steps.size() / 10));
  double sum = 0;
  for (const StepMetrics& step : last) sum += step.loss;
  return sum / static_cast<double>(last.size());
}

}  // namespace

RunSummary summarise(const std::vector<StepMetrics>& steps, const PlanFile& plan) {
  XT_CHECK(!steps.empty());
  const auto timed = std::span(steps).subspan(steps.size() > 1 ? 1 : 0);
  const auto settled = std::span(steps).subspan(std::min<std::size_t>(2, steps.size() - 1));
  RunSummary summary;
  summary.n_timed_steps = std::ssize(timed);
  const auto median_of = [&](const auto& value) {
    std::vector<Seconds> values;
    for (const StepMetrics& step : timed) values.push_back(value(step));
    return median(std::move(values));
  };
  summary.step_time = median_of([](const StepMetrics& step) { return step.time; });
  summary.tokens_per_device_s = plan.tokens_per_device() / summary.step_time.value;
  summary.mfu = mfu_of(plan, summary.step_time);
  for (std::size_t i = 0; i < n_traffic; ++i)
    summary.traffic[i] = {
        median_of([i](const StepMetrics& step) { return step.traffic[i].total; }),
        median_of([i](const StepMetrics& step) { return step.traffic[i].exposed; })};
  for (const StepMetrics& step : settled) {
    if (step.peak_memory < summary.peak_memory) continue;
    summary.peak_memory = step.peak_memory;
    summary.peak_by_category = step.peak_by_category;
  }
  summary.final_loss = final_loss(steps);
  return summary;
}

}  // namespace xt

#include "executor/observe/run_status.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/file_tail.h"
#include "costmodel/io/json_lines.h"
#include "executor/checkpoints/checkpoint_store.h"

namespace xt {
namespace {

/// Enough for the last dozens of steps.
constexpr std::int64_t most_bytes = 32 * 1024;
/// Over how many steps their time is taken.
constexpr std::size_t most_timed_steps = 10;

/// When the file at `path` was written last, in seconds since 1970; zero where there is none.
double written_s(const std::filesystem::path& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return 0;
  return static_cast<double>(facts.st_mtim.tv_sec) +
         static_cast<double>(facts.st_mtim.tv_nsec) * 1e-9;
}

StepLine step_from(const Json& line) {
  StepLine step;
  step.step = line.at("step").as_int();
  if (const Json& loss = line.at("loss"); !loss.is_null()) step.loss = loss.as_double();
  step.time = Seconds(line.at("step_time_s").as_double());
  step.tokens_per_device_s = line.at("tokens_per_device_s").as_double();
  step.mfu = line.at("mfu").as_double();
  step.peak_memory = Bytes(line.at("peak_memory_bytes").as_int());
  step.host_memory = Bytes(line.at("host_memory_bytes").as_int());
  return step;
}

void read_steps(RunStatus& status, const std::filesystem::path& path, double now) {
  const double written = written_s(path);
  if (written < status.record.began_s) return;
  for_each_json_line(path.string(), last_whole_lines(path, most_bytes),
                     [&](const Json& line) { status.steps.push_back(step_from(line)); });
  if (status.step() > status.record.resumed_behind)
    status.since_step = Seconds(std::max(0.0, now - written));
}

}  // namespace

std::int64_t RunStatus::step() const {
  return steps.empty() ? record.resumed_behind : steps.back().step;
}

std::optional<Seconds> RunStatus::step_time() const {
  std::vector<Seconds> times;
  for (const StepLine& one : steps) times.push_back(one.time);
  if (times.empty()) return std::nullopt;
  const auto counted = std::min(most_timed_steps, times.size());
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(counted));
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::optional<Seconds> RunStatus::time_left() const {
  const std::optional<Seconds> time = step_time();
  if (state != RunState::running || !time) return std::nullopt;
  return Seconds(static_cast<double>(record.steps - step()) * time->value);
}

RunStatus read_status(const std::filesystem::path& directory, double now) {
  RunStatus status;
  status.plan = read_plan(directory);
  const std::optional<RunRecord> record = read_run_record(directory);
  if (!record)
    throw InputError({error_in(directory.string(), "holds a plan that was not run yet",
                               "`xt-run train` runs it")});
  status.record = *record;
  status.state = record->state;
  if (status.state == RunState::running && !is_alive(*record, now)) status.state = RunState::gone;
  read_steps(status, directory / metrics_file_name, now);
  const std::vector<std::int64_t> checkpoints = CheckpointStore(record->checkpoints).steps();
  if (!checkpoints.empty()) status.checkpoint = checkpoints.front();
  return status;
}

}  // namespace xt

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "costmodel/document/writer.h"
#include "costmodel/io/json_document.h"
#include "costmodel/report/table.h"
#include "executor/checkpoints/checkpoint_store.h"
#include "executor/cli/commands.h"
#include "executor/observe/run_status.h"

namespace xt {
namespace {

std::string moment(double seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

std::filesystem::path checkpoint_path(const RunStatus& status) {
  return CheckpointStore(status.record.checkpoints).path(*status.checkpoint);
}

/// The first line: the state in words.
std::string headline(const RunStatus& status) {
  const RunRecord& record = status.record;
  const std::string process =
      fmt::format("process {} on {}", record.rank_0.process, record.rank_0.host);
  switch (status.state) {
    case RunState::running:
      return fmt::format("running since {}, {}", moment(record.began_s), process);
    case RunState::finished:
      return fmt::format("finished {}", moment(record.ended_s.value_or(record.beat_s)));
    case RunState::failed:
      return fmt::format("failed {}: {}", moment(record.ended_s.value_or(record.beat_s)),
                         record.reason.value_or("no reason was given"));
    case RunState::gone:
      return fmt::format("gone: {} ended without a word; it lived at {}", process,
                         moment(record.beat_s));
  }
  return {};
}

Table table_of(const RunStatus& status) {
  Table table({{"", "", Align::left}, {"", "", Align::left}});
  const RunRecord& record = status.record;
  table.row({"plan", fmt::format("{} on {} rank{}", status.plan.model_name, record.ranks,
                                 record.ranks == 1 ? "" : "s")});
  std::string step = fmt::format("{} of {}", status.step(), record.steps);
  if (record.resumed_behind > 0) step += fmt::format(", resumed behind {}", record.resumed_behind);
  table.row({"step", step});
  if (!status.steps.empty()) {
    const StepLine& last = status.steps.back();
    table.row({"loss", last.loss ? fmt::format("{:.4f}", *last.loss) : "not a number"});
    table.row({"step time", format(*status.step_time())});
    table.row({"tokens/s/device", fmt::format("{:.0f}", last.tokens_per_device_s)});
    table.row({"MFU", percent(last.mfu)});
    table.row({"memory", fmt::format("{} of the device, {} of the host at the peak",
                                     format(last.peak_memory), format(last.host_memory))});
  }
  if (status.since_step) table.row({"last step", format(*status.since_step) + " ago"});
  if (const auto left = status.time_left()) table.row({"time left", "~" + format(*left)});
  table.row({"checkpoint", status.checkpoint ? fmt::format("step {}, {}", *status.checkpoint,
                                                           checkpoint_path(status).string())
                                             : "none"});
  return table;
}

template <typename Q>
Json value_or_null(const std::optional<Q>& quantity) {
  return quantity ? Json(quantity->value) : Json();
}

Json status_json(const RunStatus& status) {
  Json document = Json::object({{"schema", "xt.status/1"},
                                {"state", enum_names(status.state)[std::size_t(status.state)]},
                                {"step", status.step()},
                                {"steps", status.record.steps},
                                {"model_name", status.plan.model_name}});
  const bool has_step = !status.steps.empty();
  const StepLine last = has_step ? status.steps.back() : StepLine{};
  document.add("loss", last.loss ? Json(*last.loss) : Json());
  document.add("step_time_s", value_or_null(status.step_time()));
  document.add("tokens_per_device_s", has_step ? Json(last.tokens_per_device_s) : Json());
  document.add("mfu", has_step ? Json(last.mfu) : Json());
  document.add("peak_memory_bytes", has_step ? Json(last.peak_memory.value) : Json());
  document.add("host_memory_bytes", has_step ? Json(last.host_memory.value) : Json());
  document.add("since_step_s", value_or_null(status.since_step));
  document.add("time_left_s", value_or_null(status.time_left()));
  document.add("checkpoint_step", status.checkpoint ? Json(*status.checkpoint) : Json());
  document.add("checkpoint", status.checkpoint ? Json(checkpoint_path(status).string()) : Json());
  document.add("run", to_json(write(status.record)));
  return document;
}

}  // namespace

ExitCode status_command(const std::filesystem::path& directory, bool is_json) {
  const RunStatus status = read_status(directory, now_s());
  if (is_json)
    fmt::print("{}", status_json(status).pretty());
  else
    fmt::print("{}\n{}", headline(status), table_of(status).text());
  const bool is_well = status.state == RunState::running || status.state == RunState::finished;
  return is_well ? ExitCode::yes : ExitCode::no;
}

}  // namespace xt

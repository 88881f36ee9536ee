#include "executor/observe/run_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/files.h"
#include "costmodel/io/json_document.h"

namespace xt {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

/// When `process` of this host began, if it lives. One that nobody has waited for yet does not.
///
/// Source: proc(5), /proc/pid/stat, fields 3 (state) and 22 (starttime)
std::optional<std::int64_t> began_ticks(std::int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t end_of_name = text.rfind(')');  // a name may hold blanks and brackets
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string state, skipped;
  fields >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  std::int64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

/// The record in `directory`; one that cannot be read tells of nobody.
std::optional<RunRecord> readable_record(const std::filesystem::path& directory) {
  try {
    return read_run_record(directory);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

double now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

ProcessIdentity this_process() {
  const std::int64_t process = getpid();
  return {host_name(), process, began_ticks(process).value_or(0)};
}

bool is_alive(const RunRecord& record, double now) {
  const ProcessIdentity& process = record.rank_0;
  if (process.host != host_name())
    return now - record.beat_s < static_cast<double>(longest_silence_s);
  return began_ticks(process.process) == process.began_ticks;
}

std::optional<RunRecord> read_run_record(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / run_file_name;
  if (!file_exists(path)) return std::nullopt;
  auto record = read<RunRecord>(read_json(path));
  if (record.schema != run_schema)
    throw InputError({error_in(path.string(), fmt::format("is of format `{}`, expected `{}`",
                                                          record.schema, run_schema))});
  return record;
}

void write_run_record(const std::filesystem::path& directory, const RunRecord& record) {
  write_file(directory / run_file_name, to_json(write(record)).pretty(), Overwrite::allow);
}

void check_not_running(const std::filesystem::path& directory) {
  const std::optional<RunRecord> record = readable_record(directory);
  if (!record || record->state != RunState::running || !is_alive(*record, now_s())) return;
  throw InputError({error_in((directory / run_file_name).string(),
                             fmt::format("says that process {} on {} is training this plan",
                                         record->rank_0.process, record->rank_0.host),
                             "wait for it or end it; `xt-run status` says how far it is")});
}

}  // namespace xt

#include "executor/observe/xtuner_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/io/file_tail.h"

namespace xt {
namespace {

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / (1024.0 * 1024 * 1024); }

/// Tokens of samples per second of this rank.
double tgs(const StepMetrics& metrics) {
  return static_cast<double>(metrics.own.tokens) / metrics.own.time.value;
}

/// The same with padding.
double slots_per_second(const StepMetrics& metrics) {
  return static_cast<double>(metrics.own.slots) / metrics.own.time.value;
}

double run_tgs(const StepPlace& place) {
  return static_cast<double>(place.run_tokens) / place.train_time.value;
}

/// Of all ranks and steps, if the others read as many as this rank since it trains.
std::int64_t tokens_so_far(const StepMetrics& metrics, const StepPlace& place) {
  return place.run_tokens * metrics.step / place.run_steps * place.ranks;
}

/// What the steps that are left take at this one's rate; as long as this one where it read nothing.
double eta_s(const StepMetrics& metrics, const StepPlace& place) {
  const auto steps = static_cast<double>(place.steps - metrics.step);
  if (metrics.own.tokens == 0) return steps * metrics.own.time.value;
  return steps * static_cast<double>(place.run_tokens) / static_cast<double>(place.run_steps) /
         tgs(metrics);
}

/// Whole seconds as Python writes a timedelta.
std::string days_and_hours(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  const std::int64_t days = whole / 86400;
  const std::string clock =
      fmt::format("{}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  if (days == 0) return clock;
  return fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

/// Losses by the names of XTuner's.
std::vector<std::pair<std::string, double>> losses(const StepMetrics& metrics) {
  std::vector<std::pair<std::string, double>> result{{"reduced_llm_loss", metrics.loss}};
  if (metrics.balance_loss) result.emplace_back("reduced_balancing_loss", *metrics.balance_loss);
  return result;
}

/// The step that `line` is of, behind `key`; none if it is of no step.
std::optional<std::int64_t> step_behind(std::string_view line, std::string_view key) {
  const std::size_t found = line.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  line.remove_prefix(found + key.size());
  std::int64_t step = 0;
  const auto end = std::from_chars(line.data(), line.data() + line.size(), step);
  if (end.ec != std::errc()) return std::nullopt;
  return step;
}

/// The lines of the file at `path` before the first of a step behind `last`.
std::string lines_up_to(const std::filesystem::path& path, std::string_view key,
                        std::int64_t last) {
  if (last == 0) return {};
  const std::string text = last_whole_lines(path, std::numeric_limits<std::int32_t>::max());
  std::size_t end = 0;
  while (end < text.size()) {
    const std::string_view line = std::string_view(text).substr(end, text.find('\n', end) - end);
    if (step_behind(line, key).value_or(0) > last) break;
    end += line.size() + 1;
  }
  return text.substr(0, end);
}

/// `path`, in a folder that is there.
std::filesystem::path in_folder(std::filesystem::path path) {
  create_folder(path.parent_path());
  return path;
}

void add_time(Json& line, const StepMetrics& metrics, const StepPlace& place) {
  line.add("time/data_time", metrics.own.data_time.value);
  line.add("time/step_time", metrics.own.time.value);
  line.add("time/train_time", place.train_time.value);
  line.add("time/eta_seconds", eta_s(metrics, place));
}

void add_rates(Json& line, const StepMetrics& metrics, const StepPlace& place) {
  line.add("runtime_info/text_tokens", metrics.own.tokens);
  line.add("runtime_info/seqlen_tokens", metrics.own.slots);
  line.add("runtime_info/approximate_total_consumed_tokens", tokens_so_far(metrics, place));
  line.add("runtime_info/tgs", tgs(metrics));
  line.add("runtime_info/seqlen_tgs", slots_per_second(metrics));
  line.add("runtime_info/exp_tgs", run_tgs(place));
  line.add("runtime_info/efficient_attn_ratio", metrics.own.attention_ratio);
  line.add("runtime_info/mfu", metrics.mfu * (metrics.time / metrics.own.time));
}

void add_memory(Json& line, const StepMetrics& metrics) {
  line.add("memory/max_memory_GB", gib(metrics.own.device_memory));
  line.add("memory/reserved_memory_GB", gib(metrics.own.reserved_memory));
  line.add("memory/host_GB", gib(metrics.own.host_memory));
  for (std::size_t i = 0; i < metrics.peak_by_category.size(); ++i)
    line.add(fmt::format("memory/{}_GB", memory_category_names[i]),
             gib(metrics.peak_by_category[i]));
}

void add_communication(Json& line, const StepMetrics& metrics) {
  for (std::size_t i = 0; i < n_traffic; ++i) {
    line.add(fmt::format("communication/{}_s", traffic_names[i]), metrics.traffic[i].total.value);
    line.add(fmt::format("communication/{}_exposed_s", traffic_names[i]),
             metrics.traffic[i].exposed.value);
  }
}

}  // namespace

std::string xtuner_message(const StepMetrics& metrics, const StepPlace& place) {
  std::string text = fmt::format(
      "Epoch {} Step {}/{} data_time: {:.4f} lr: {:.6e} time: {:.4f} text_tokens: {} "
      "seqlen_tokens: {} approximate_total_consumed_tokens: {} ",
      metrics.own.epoch, metrics.step, place.steps, metrics.own.data_time.value,
      metrics.learning_rate, metrics.own.time.value, metrics.own.tokens, metrics.own.slots,
      tokens_so_far(metrics, place));
  std::string_view separator;
  for (const auto& [name, loss] : losses(metrics))
    text += fmt::format("{}{}: {:.8f}", std::exchange(separator, ", "), name, loss);
  text += fmt::format(
      " step_consumed_tokens: {:.8f}, step_seqlen_tokens: {:.8f}, efficient_attn_ratio: {:.8f}",
      static_cast<double>(metrics.own.tokens), static_cast<double>(metrics.own.slots),
      metrics.own.attention_ratio);
  return text + fmt::format(
                    " grad_norm: {:.8f} max_memory: {:.2f} GB reserved_memory: {:.2f} GB "
                    "tgs: {:.1f} seqlen_tgs: {:.1f} exp_tgs: {:.1f} eta: {}",
                    metrics.grad_norm, gib(metrics.own.device_memory),
                    gib(metrics.own.reserved_memory), tgs(metrics), slots_per_second(metrics),
                    run_tgs(place), days_and_hours(eta_s(metrics, place)));
}

Json tracker_line(const StepMetrics& metrics, const StepPlace& place) {
  Json line = Json::object({{"step", metrics.step}, {"lr", metrics.learning_rate}});
  add_time(line, metrics, place);
  add_rates(line, metrics, place);
  add_memory(line, metrics);
  line.add("grad_norm", metrics.grad_norm);
  for (const auto& [name, loss] : losses(metrics)) line.add("loss/" + name, loss);
  add_communication(line, metrics);
  return line;
}

std::string xtuner_line(const std::string& message, std::optional<int> rank) {
  return fmt::format("[XTuner]{}[{:%Y-%m-%d %H:%M:%S}][INFO] {}",
                     rank ? fmt::format("[RANK {}]", *rank) : "",
                     fmt::localtime(std::time(nullptr)), message);
}

std::filesystem::path log_path(const std::filesystem::path& directory, int rank) {
  return directory / "logs" / fmt::format("rank{}.log", rank);
}

std::filesystem::path tracker_path(const std::filesystem::path& directory, int rank) {
  return directory / "logs" / "exp_tracking" / fmt::format("rank{}", rank) / "tracker.jsonl";
}

XtunerLog::XtunerLog(const std::filesystem::path& directory, int rank, std::int64_t resumed_behind)
    : log_(in_folder(log_path(directory, rank)), Overwrite::allow,
           lines_up_to(log_path(directory, rank), " Step ", resumed_behind)),
      tracker_(in_folder(tracker_path(directory, rank)), Overwrite::allow,
               lines_up_to(tracker_path(directory, rank), "\"step\":", resumed_behind)) {}

void XtunerLog::say(const std::string& message) { log_.write(xtuner_line(message)); }

void XtunerLog::step(const StepMetrics& metrics, const StepPlace& place) {
  say(xtuner_message(metrics, place));
  tracker_.write(tracker_line(metrics, place).dump());
}

}  // namespace xt

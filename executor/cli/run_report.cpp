#include "executor/cli/run_report.h"

#include <fmt/format.h>

#include "costmodel/document/writer.h"
#include "costmodel/io/json_document.h"
#include "costmodel/report/table.h"
#include "costmodel/units/format.h"

namespace xt {
namespace {

std::string error_text(double predicted, double measured) {
  if (measured == 0) return predicted == 0 ? "0.0 %" : "";
  return fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
}

template <typename Q>
void add_row(Table& table, std::string what, Q predicted, Q measured) {
  table.row(
      {std::move(what), "~" + format(predicted), format(measured),
       error_text(static_cast<double>(predicted.value), static_cast<double>(measured.value))});
}

void add_communication(Table& table, const PlanPrediction& predicted, const RunSummary& summary) {
  for (std::size_t i = 0; i < n_traffic; ++i) {
    const PlanTraffic* traffic = predicted.communication.find(traffic_names[i]);
    const TrafficTime& measured = summary.traffic[i];
    if (traffic == nullptr || (traffic->total_s == 0 && measured.total.value == 0)) continue;
    add_row(table, fmt::format("exposed {}", traffic_names[i]), Seconds(traffic->exposed_s),
            measured.exposed);
  }
}

Json traffic_json(const std::array<TrafficTime, n_traffic>& traffic) {
  Json kinds = Json::object();
  for (std::size_t i = 0; i < n_traffic; ++i)
    kinds.add(std::string(traffic_names[i]),
              Json::object({{"total_s", traffic[i].total.value},
                            {"exposed_s", traffic[i].exposed.value},
                            {"overlapped_ratio", traffic[i].overlapped_ratio()}}));
  return kinds;
}

Json memory_json(const CategoryBytes& bytes) {
  Json categories = Json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    categories.add(std::string(memory_category_names[i]), bytes[i].value);
  return categories;
}

Json step_json(const StepMetrics& metrics) {
  Json step = Json::object({});
  add_step(step, metrics);
  return step;
}

}  // namespace

std::string step_line(const StepMetrics& metrics, std::int64_t n_steps) {
  const auto columns = std::to_string(n_steps).size();
  return fmt::format(
             "step {:>{}}  loss {:.4f}  grad norm {:.3f}  {}  {:.0f} tokens/s/device  MFU {}  peak "
             "{}",
             metrics.step, columns, metrics.loss, metrics.grad_norm, format(metrics.time),
             metrics.tokens_per_device_s, percent(metrics.mfu), format(metrics.peak_memory)) +
         (metrics.balance_loss ? fmt::format("  balance loss {:.4f}", *metrics.balance_loss) : "") +
         (metrics.is_skipped ? "  skipped: nothing was updated" : "");
}

std::string comparison_table(const PlanFile& plan, const RunSummary& summary) {
  if (!plan.prediction) return {};
  const PlanPrediction& predicted = *plan.prediction;
  Table table({{"", "", Align::left}, {"predicted"}, {"measured"}, {"error"}});
  add_row(table, "step time", Seconds(predicted.step_time_s), summary.step_time);
  table.row({"tokens/s/device", fmt::format("~{:.0f}", predicted.tokens_per_device_s),
             fmt::format("{:.0f}", summary.tokens_per_device_s),
             error_text(predicted.tokens_per_device_s, summary.tokens_per_device_s)});
  table.row({"MFU", "~" + percent(predicted.mfu), percent(summary.mfu),
             error_text(predicted.mfu, summary.mfu)});
  add_row(table, "peak memory", Bytes(predicted.peak_memory_bytes), summary.peak_memory);
  add_communication(table, predicted, summary);
  return table.text();
}

std::string loss_line(const RunSummary& summary, double bigram_entropy) {
  return fmt::format(
      "loss {:.4f} over the last tenth of the steps; {} the {:.4f} of the text's pairs of tokens",
      summary.final_loss, summary.final_loss < bigram_entropy ? "below" : "not below",
      bigram_entropy);
}

std::string skipped_text(const RunSummary& summary, std::size_t n_steps) {
  if (summary.n_skipped == 0) return {};
  return fmt::format(
      "{} of {} steps updated nothing, as their gradients were no finite numbers; the first was "
      "step {}",
      summary.n_skipped, n_steps, summary.first_skipped);
}

Json run_json(const PlanFile& plan, const std::vector<StepMetrics>& steps,
              const RunSummary& summary, double bigram_entropy) {
  Json list = Json::array();
  for (const StepMetrics& metrics : steps) list.push_back(step_json(metrics));
  Json document = Json::object({{"schema", "xt.training/1"},
                                {"model_name", plan.model_name},
                                {"machine_name", plan.machine_name},
                                {"ranks", plan.ranks},
                                {"pack_length", plan.pack_length},
                                {"sample_length", plan.sample_length},
                                {"steps", list}});
  document.add("measured",
               Json::object({{"n_timed_steps", summary.n_timed_steps},
                             {"n_skipped_steps", summary.n_skipped},
                             {"step_time_s", summary.step_time.value},
                             {"tokens_per_device_s", summary.tokens_per_device_s},
                             {"mfu", summary.mfu},
                             {"peak_memory_bytes", summary.peak_memory.value},
                             {"memory_breakdown_bytes", memory_json(summary.peak_by_category)},
                             {"communication", traffic_json(summary.traffic)}}));
  document.add("predicted", plan.prediction ? to_json(write(*plan.prediction)) : Json());
  document.add("final_loss", summary.final_loss);
  document.add("bigram_entropy", bigram_entropy);
  return document;
}

}  // namespace xt

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/compare/compare.h"

namespace xt {
namespace {

constexpr std::size_t most_kernels = 12;

std::string milliseconds(Seconds time) { return significant(time.value * 1e3, 4); }

std::string signed_percent(double ratio) { return fmt::format("{:+.1f} %", ratio * 100); }

double relative(double predicted, double measured) {
  return measured == 0 ? 0.0 : predicted / measured - 1.0;
}

void add_row(Table& table, std::string_view what, const std::string& predicted,
             const std::string& measured, double error) {
  table.row({std::string(what), "~" + predicted, measured, signed_percent(error)});
}

Table headline_table(const MeasuredPlan& plan, const Comparison& c) {
  Table table({{"", {}, Align::left}, {"predicted"}, {"measured"}, {"error"}});
  const double tokens = plan.plan.tokens_per_device();
  const auto mfu = [&](Seconds step) {
    return plan.plan.model_flops / step.value / plan.plan.peak_flops_per_s;
  };
  const double error = c.error();
  add_row(table, "step time [ms]", milliseconds(c.predicted), milliseconds(c.measured), error);
  add_row(table, "tokens per device per second", significant(tokens / c.predicted.value, 4),
          significant(tokens / c.measured.value, 4), relative(c.measured.value, c.predicted.value));
  add_row(table, "MFU", percent(mfu(c.predicted)), percent(mfu(c.measured)),
          relative(c.measured.value, c.predicted.value));
  const auto mib = [](Bytes bytes) {
    return significant(static_cast<double>(bytes.value) / (1 << 20), 4);
  };
  const auto memory = [&](std::string_view what, Bytes predicted) {
    add_row(table, what, mib(predicted), mib(c.measured_memory.peak),
            relative(static_cast<double>(predicted.value),
                     static_cast<double>(c.measured_memory.peak.value)));
  };
  memory("peak memory [MiB]", c.predicted_memory.peak);
  memory("  under the data that came", c.on_data_memory.peak);
  for (std::size_t i = 0; i < n_traffic; ++i) {
    const TrafficTime& p = c.predicted_account.traffic[i];
    const TrafficTime& m = c.measured_account.traffic[i];
    if (p.total.value <= 0 && m.total.value <= 0) continue;
    add_row(table, fmt::format("exposed {} [ms]", traffic_names[i]), milliseconds(p.exposed),
            milliseconds(m.exposed), relative(p.exposed.value, m.exposed.value));
  }
  return table;
}

Table split_table(const Comparison& c) {
  Table table({{"where the error comes from", {}, Align::left}, {"step", "ms"}, {"of the step"}});
  const auto row = [&](std::string_view what, Seconds part) {
    table.row({std::string(what), milliseconds(part), signed_percent(part / c.measured)});
  };
  row("data: lengths and routing that came", c.predicted - c.on_data);
  row("cost: ops took another time", c.on_data - c.replayed);
  row("schedule: order, overlap, gaps", c.replayed - c.measured);
  row("all", c.predicted - c.measured);
  return table;
}

Table kernel_table(const Comparison& c) {
  Table table({{"kernel", {}, Align::left},
               {"predicted", "ms"},
               {"measured", "ms"},
               {"difference", "ms"},
               {"error"}});
  for (std::size_t i = 0; i < std::min(most_kernels, c.kernels.size()); ++i) {
    const KernelTime& time = c.kernels[i];
    table.row({std::string(name(time.kernel)), "~" + milliseconds(time.predicted),
               milliseconds(time.measured), milliseconds(time.predicted - time.measured),
               signed_percent(relative(time.predicted.value, time.measured.value))});
  }
  return table;
}

std::string rank_line(const Comparison& c) {
  if (c.rank_medians.size() < 2) return "";
  const auto slowest = std::max_element(c.rank_medians.begin(), c.rank_medians.end());
  return fmt::format("slowest rank {}: {}; waiting for late ranks {} a step\n",
                     slowest - c.rank_medians.begin(), format(*slowest), format(c.skew));
}

std::string routing_line(const Comparison& c) {
  if (!c.routing_imbalance || c.rank_medians.size() < 2) return "";
  return fmt::format(
      "rows of the rank with most: {:.3g} times the mean, which is "
      "--routing-imbalance of xt-plan\n",
      *c.routing_imbalance);
}

}  // namespace

std::string comparison_text(const MeasuredPlan& plan, const Comparison& comparison) {
  std::string text = fmt::format("{} on {}, {} ranks, {} recorded steps of rank 0\n\n",
                                 plan.plan.model_name, plan.profile.title, plan.plan.ranks,
                                 std::count_if(plan.measured.begin(), plan.measured.end(),
                                               [](const Timeline& t) { return t.rank == 0; }));
  text += headline_table(plan, comparison).text() + "\n";
  text += split_table(comparison).text() + "\n";
  text += kernel_table(comparison).text() + "\n";
  return text + rank_line(comparison) + routing_line(comparison);
}

}  // namespace xt

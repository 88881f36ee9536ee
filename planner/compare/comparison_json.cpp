#include "planner/compare/compare.h"

namespace xt {
namespace {

Json traffic_json(const StepAccount& account) {
  Json result = Json::object();
  for (std::size_t i = 0; i < n_traffic; ++i)
    result.add(std::string(traffic_names[i]),
               Json::object({{"total_s", account.traffic[i].total.value},
                             {"exposed_s", account.traffic[i].exposed.value},
                             {"overlapped_ratio", account.traffic[i].overlapped_ratio()}}));
  return result;
}

Json memory_json(const MemoryPeak& peak) {
  Json breakdown = Json::object();
  for (std::size_t i = 0; i < peak.by_category.size(); ++i)
    breakdown.add(std::string(memory_category_names[i]), peak.by_category[i].value);
  return Json::object(
      {{"peak_memory_bytes", peak.peak.value}, {"memory_breakdown_bytes", breakdown}});
}

}  // namespace

Json comparison_json(const MeasuredPlan& plan, const Comparison& c) {
  Json kernels = Json::array();
  for (const KernelTime& time : c.kernels)
    kernels.push_back(Json::object({{"kernel", name(time.kernel)},
                                    {"predicted_s", time.predicted.value},
                                    {"measured_s", time.measured.value}}));
  Json ranks = Json::array();
  for (const Seconds step : c.rank_medians) ranks.push_back(step.value);
  return Json::object(
      {{"schema", "xt.comparison/1"},
       {"model", plan.plan.model_name},
       {"machine", plan.plan.machine_name},
       {"ranks", plan.plan.ranks},
       {"n_timelines", static_cast<std::int64_t>(plan.measured.size())},
       {"predicted_step_time_s", c.predicted.value},
       {"measured_step_time_s", c.measured.value},
       {"step_time_error_ratio", c.error()},
       {"data_error_s", (c.predicted - c.on_data).value},
       {"cost_error_s", (c.on_data - c.replayed).value},
       {"schedule_error_s", (c.replayed - c.measured).value},
       {"skew_s", c.skew.value},
       {"rank_step_time_s", ranks},
       {"routing_imbalance", c.routing_imbalance ? Json(*c.routing_imbalance) : Json()},
       {"predicted_communication", traffic_json(c.predicted_account)},
       {"measured_communication", traffic_json(c.measured_account)},
       {"predicted_memory", memory_json(c.predicted_memory)},
       {"on_data_memory", memory_json(c.on_data_memory)},
       {"measured_memory", memory_json(c.measured_memory)},
       {"kernels", kernels}});
}

}  // namespace xt

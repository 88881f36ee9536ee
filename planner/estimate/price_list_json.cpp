#include "planner/estimate/price_list.h"

namespace xt {
namespace {

Json alive_json(const Schedule& schedule, const std::vector<Holders>& alive) {
  Json result = Json::array();
  for (const Holders& of : alive)
    result.push_back(
        Json::object({{"category", memory_category_names[static_cast<std::size_t>(of.category)]},
                      {"kind", buffer_kind_names[static_cast<std::size_t>(of.kind)]},
                      {"what", holder_name(schedule, of)},
                      {"layers", layer_ranges(of.layers)},
                      {"n_buffers", of.n_buffers},
                      {"bytes", of.bytes.value}}));
  return result;
}

Json price_json(const Price& price) {
  Json change = Json::object();
  for (const auto& [field, text] : price.change) change.add(field, text);
  return Json::object({{"change", std::move(change)},
                       {"flags", flags_text(price.change)},
                       {"saved_bytes", price.saved.value},
                       {"added_s", price.added.value},
                       {"added_s_per_gib", price.seconds_per_gib()},
                       {"allocated_bytes", price.device.allocated.value},
                       {"p50_bytes", price.device.p50().value},
                       {"p95_bytes", price.device.p95().value},
                       {"host_memory_bytes", price.host_peak.value},
                       {"verdict", fit_names[static_cast<std::size_t>(price.fit)]}});
}

Json prices_json(const std::vector<Price>& prices) {
  Json result = Json::array();
  for (const Price& price : prices) result.push_back(price_json(price));
  return result;
}

}  // namespace

void add_price_list(Json& answer, const Estimate& estimate, const PriceList& list) {
  answer.add("alive_at_peak", alive_json(estimate.schedule, list.alive));
  answer.add("prices", prices_json(list.prices));
  answer.add("ways_to_fit", prices_json(list.ways_to_fit));
}

}  // namespace xt

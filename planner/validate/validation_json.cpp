#include "planner/validate/validate.h"

namespace xt {
namespace {

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json size_json(std::size_t n) { return {static_cast<std::int64_t>(n)}; }

Json predicted_json(const std::optional<RowPrediction>& predicted) {
  if (!predicted) return Json();
  Json alone = Json::object();
  for (std::size_t i = 0; i < kernel_class_names.size(); ++i)
    alone.add(std::string(kernel_class_names[i]), predicted->alone[i].value);
  return Json::object({{"tokens_per_device_s", predicted->tokens_per_device_s},
                       {"step_time_s", predicted->step_time_s},
                       {"allocated_bytes", predicted->allocated.value},
                       {"reserved_bytes", predicted->reserved.value},
                       {"device_bytes", predicted->on_device().value},
                       {"hardware_flops_per_token", predicted->hardware_flops_per_token},
                       {"alone_s", alone},
                       {"fits", predicted->fits}});
}

Json measured_json(const PublishedRow& row) {
  const PublishedMeasured& m = row.measured;
  Json uses = Json::array();
  for (const Use use : row.usable_for) uses.push_back(use_names[static_cast<std::size_t>(use)]);
  return Json::object(
      {{"tokens_per_device_s", optional_json(row.tokens_per_device_s())},
       {"step_time_s", optional_json(m.step_time_s)},
       {"peak_memory_bytes", m.peak_memory_bytes ? Json(*m.peak_memory_bytes) : Json()},
       {"memory_kind",
        m.memory_kind ? Json(memory_kind_names[static_cast<std::size_t>(*m.memory_kind)]) : Json()},
       {"oom", m.oom ? Json(*m.oom) : Json()},
       {"usable_for", uses}});
}

Json printed_json(const std::optional<PrintedFlops>& of) {
  if (!of) return Json();
  return Json::object({{"printed_flops_per_s", of->printed_per_s},
                       {"counted_flops_per_s", of->counted_per_s},
                       {"flops_per_token", of->per_token},
                       {"error", of->error()}});
}

Json row_json(const RowScore& of) {
  return Json::object({{"id", of.row.id},
                       {"supported", of.is_supported()},
                       {"reason", of.is_supported() ? Json() : Json(of.outcome.reason)},
                       {"detail", of.outcome.detail.empty() ? Json() : Json(of.outcome.detail)},
                       {"predicted", predicted_json(of.outcome.predicted)},
                       {"measured", measured_json(of.row)},
                       {"time_error", optional_json(of.time_error)},
                       {"memory_error", optional_json(of.memory_error)},
                       {"null_model_time_error", optional_json(of.null_model_time_error)},
                       {"left_out_time_error", optional_json(of.left_out_time_error)},
                       {"printed_flops", printed_json(of.printed_flops)}});
}

Json summary_json(const ErrorSummary& of) {
  return Json::object({{"rows", size_json(of.n)},
                       {"median_abs_error", optional_json(of.median_abs)},
                       {"p90_abs_error", optional_json(of.p90_abs)},
                       {"bias", optional_json(of.bias)}});
}

// `keys` name what a group's name consists of.
Json group_json(const GroupScore& of, const std::vector<std::string>& keys) {
  Json json = Json::object();
  for (std::size_t i = 0; i < keys.size(); ++i) json.add(keys[i], of.name[i]);
  json.add("rows", size_json(of.n_rows));
  json.add("unsupported", size_json(of.n_unsupported));
  json.add("time", summary_json(of.time));
  json.add("null_model_time", summary_json(of.null_model_time));
  json.add("left_out_time", summary_json(of.left_out_time));
  json.add("memory", summary_json(of.memory));
  json.add("open_memory", size_json(of.n_open_memory));
  return json;
}

Json groups_json(const std::vector<GroupScore>& groups, const std::vector<std::string>& keys) {
  Json json = Json::array();
  for (const GroupScore& of : groups) json.push_back(group_json(of, keys));
  return json;
}

Json layouts_json(const std::vector<LayoutScore>& layouts) {
  constexpr std::array<std::string_view, 7> keys = {
      "source", "model", "machine", "devices", "seq_len", "precision", "global_batch_size"};
  Json json = Json::array();
  for (const LayoutScore& of : layouts) {
    Json one = Json::object();
    for (std::size_t i = 0; i < keys.size(); ++i) one.add(std::string(keys[i]), of.key[i]);
    one.add("layouts", size_json(of.n));
    one.add("regret", of.regret);
    one.add("rank_correlation", optional_json(of.rank_correlation));
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace

Json validation_json(const Validation& validation) {
  Json rows = Json::array();
  for (const RowScore& of : validation.rows) rows.push_back(row_json(of));
  Json unsupported = Json::array();
  for (const auto& [reason, n] : validation.unsupported)
    unsupported.push_back(Json::object({{"reason", reason}, {"rows", size_json(n)}}));
  const OomScore& oom = validation.oom;
  const PrintedScore& printed = validation.printed;
  Json inconsistent = Json::array();
  for (const std::size_t i : printed.inconsistent)
    inconsistent.push_back(validation.rows[i].row.id);
  return Json::object(
      {{"schema", "xt.validation/1"},
       {"rows", rows},
       {"strata", groups_json(validation.strata, {"machine", "framework_family", "kind"})},
       {"sources", groups_json(validation.sources, {"source"})},
       {"total", group_json(validation.total, {})},
       {"unsupported", unsupported},
       {"oom", Json::object({{"called", size_json(oom.n_called)},
                             {"missed", size_json(oom.n_missed)},
                             {"fitting", size_json(oom.n_fitting)},
                             {"false", size_json(oom.n_false)}})},
       {"layouts", layouts_json(validation.layouts)},
       {"printed_flops",
        Json::object({{"rows", size_json(printed.n_rows)}, {"inconsistent", inconsistent}})}});
}

Json explanation_json(const RowScore& row, const RowPlan& plan) {
  return Json::object(
      {{"schema", "xt.validation_row/1"},
       {"row", row_json(row)},
       {"estimate", plan.plan ? estimate_json(*plan.plan, estimate(*plan.plan)) : Json()}});
}

}  // namespace xt

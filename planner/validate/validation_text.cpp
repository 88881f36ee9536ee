#include <fmt/format.h>

#include <algorithm>

#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/validate/row_notes.h"
#include "planner/validate/validate.h"

namespace xt {
namespace {

std::string signed_percent(double ratio) { return fmt::format("{:+.1f}", ratio * 100); }

std::string unsigned_percent(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.1f}", *ratio * 100) : "";
}

std::string count(std::size_t n) { return n == 0 ? "" : std::to_string(n); }

std::string bias(const ErrorSummary& of) { return of.bias ? signed_percent(*of.bias) : ""; }

// A row of what all tables of errors have, behind the cells that name the group.
std::vector<std::string> group_cells(std::vector<std::string> cells, const GroupScore& of) {
  const std::vector<std::string> rest = {std::to_string(of.n_rows - of.n_unsupported),
                                         std::to_string(of.n_rows),
                                         count(of.time.n),
                                         unsigned_percent(of.time.median_abs),
                                         unsigned_percent(of.time.p90_abs),
                                         bias(of.time),
                                         unsigned_percent(of.null_model_time.median_abs),
                                         unsigned_percent(of.left_out_time.median_abs),
                                         count(of.memory.n),
                                         unsigned_percent(of.memory.median_abs),
                                         unsigned_percent(of.memory.p90_abs),
                                         bias(of.memory),
                                         count(of.n_open_memory)};
  cells.insert(cells.end(), rest.begin(), rest.end());
  return cells;
}

std::vector<Column> group_columns(std::vector<Column> columns) {
  const std::vector<Column> rest = {
      {"priced"},      {"of"},          {"time rows"},       {"median", "%"},
      {"p90", "%"},    {"bias", "%"},   {"null model", "%"}, {"left out", "%"},
      {"memory rows"}, {"median", "%"}, {"p90", "%"},        {"bias", "%"},
      {"open"}};
  columns.insert(columns.end(), rest.begin(), rest.end());
  return columns;
}

// Groups without a priced row are only counted, among the reasons.
std::string group_table(std::vector<Column> names, const std::vector<GroupScore>& groups) {
  Table table(group_columns(std::move(names)));
  for (const GroupScore& of : groups)
    if (of.n_unsupported < of.n_rows) table.row(group_cells(of.name, of));
  return table.text();
}

std::string reason_table(const Validation& validation) {
  if (validation.unsupported.empty()) return "";
  Table table({{"not priced because of", {}, Align::left}, {"rows"}});
  for (const auto& [reason, n] : validation.unsupported) table.row({reason, std::to_string(n)});
  return "\n" + table.text();
}

std::string oom_line(const OomScore& oom) {
  return fmt::format("out of memory: {} of {} called; {} of {} that ran called out of memory\n",
                     oom.n_called, oom.n_called + oom.n_missed, oom.n_false, oom.n_fitting);
}

// What a source prints, and what its convention makes of its own tokens.
std::string printed_line(const PublishedRow& row, const PrintedFlops& of) {
  const auto tera = [](double flops) { return significant(flops * 1e-12, 4); };
  return fmt::format(
      "{} prints {} TFLOP/s; {} tokens a second times {} GFLOP, by its convention, are {}\n",
      row.id, tera(of.printed_per_s), significant(*row.tokens_per_device_s(), 4),
      significant(of.per_token * 1e-9, 4), tera(of.counted_per_s));
}

std::string printed_lines(const Validation& validation) {
  const PrintedScore& printed = validation.printed;
  if (printed.n_rows == 0) return "";
  std::string text = fmt::format(
      "printed rates: {} of {} are within 1 % of tokens times flops as their source counts them\n",
      printed.n_rows - printed.inconsistent.size(), printed.n_rows);
  for (const std::size_t i : printed.inconsistent) {
    const RowScore& of = validation.rows[i];
    text += "  " + printed_line(of.row, *of.printed_flops);
  }
  return text;
}

// How good a choice is that believes predictions.
std::string layouts_line(const std::vector<LayoutScore>& layouts) {
  if (layouts.empty()) return "";
  std::vector<double> regrets, correlations;
  for (const LayoutScore& of : layouts) {
    regrets.push_back(of.regret);
    if (of.rank_correlation) correlations.push_back(*of.rank_correlation);
  }
  const auto percent = [](double ratio) { return fmt::format("{:.1f} %", 100 * ratio); };
  std::string text = fmt::format(
      "layouts: {} models were measured in several; the one that is predicted to be fastest is {} "
      "slower than "
      "the fastest in the median, {} at most",
      layouts.size(), percent(*percentile(regrets, 0.5)),
      percent(*std::ranges::max_element(regrets)));
  if (const auto median = percentile(correlations, 0.5))
    text +=
        fmt::format("; rank correlation {:.2f} in the median of {}", *median, correlations.size());
  return text + "\n";
}

std::string layout_text(const PublishedParallel& p) {
  std::string text = fmt::format("ZeRO-{}", p.zero);
  const auto part = [&](std::string_view name, std::int64_t n) {
    if (n > 1) text += fmt::format(", {} {}", name, n);
  };
  part("dp_shard", p.dp_shard);
  part("dp_replicate", p.dp_replicate);
  part("tp", p.tp);
  part("pp", p.pp);
  part("vpp", p.vpp);
  part("cp", p.cp);
  part("ep", p.ep);
  part("etp", p.etp);
  return text;
}

std::string recompute_text(const PublishedRow& row) {
  std::string text(published_recompute_names[static_cast<std::size_t>(row.recompute)]);
  return row.recompute_detail ? fmt::format("{} ({})", text, *row.recompute_detail) : text;
}

std::string row_lines(const PublishedRow& row) {
  std::string text = fmt::format("{}: {}, {}\n", row.id, row.source.title, row.source.date);
  text +=
      fmt::format("{} on {} × {}, {}\n", row.model.name, row.devices, row.machine, row.framework);
  const std::string batch =
      row.global_batch_size ? std::to_string(*row.global_batch_size) : "not stated";
  text += fmt::format("{}, {} × {} tokens a micro-batch, batch {}, {}, recompute {}{}\n",
                      layout_text(row.parallel), row.micro_batch_size, row.seq_len, batch,
                      row.precision, recompute_text(row),
                      row.offload ? ", offload " + *row.offload : "");
  return text + fmt::format("notes: {}\n", row.notes);
}

std::string gib(Bytes bytes) {
  return significant(static_cast<double>(bytes.value) / (1024.0 * 1024.0 * 1024.0), 4);
}

std::string error_cell(const std::optional<double>& error) {
  return error ? signed_percent(*error) : "";
}

// What is predicted of each kind of memory, and what was measured beside the kind that it is.
void add_memory(Table& table, const RowScore& of) {
  const RowPrediction& predicted = *of.outcome.predicted;
  const PublishedMeasured& measured = of.row.measured;
  const std::string peak =
      measured.peak_memory_bytes ? gib(Bytes(*measured.peak_memory_bytes)) : "";
  const auto row = [&](MemoryKind kind, Bytes bytes) {
    const bool is_it = !peak.empty() && measured.memory_kind == kind;
    const std::string_view name = memory_kind_names[static_cast<std::size_t>(kind)];
    table.row({fmt::format("{} [GiB]", name), "~" + gib(bytes), is_it ? peak : "",
               is_it ? error_cell(of.memory_error) : ""});
  };
  row(MemoryKind::allocated, predicted.allocated);
  row(MemoryKind::reserved, predicted.reserved);
  if (measured.memory_kind == MemoryKind::device) row(MemoryKind::device, predicted.on_device());
  if (!peak.empty() && !measured.memory_kind)
    table.row({"one of both [GiB]", "", peak, error_cell(of.memory_error)});
}

std::string error_table(const RowScore& of) {
  const RowPrediction& predicted = *of.outcome.predicted;
  const std::optional<double> tokens = of.row.tokens_per_device_s();
  const std::optional<bool> oom = of.row.measured.oom;
  Table table({{"", {}, Align::left}, {"predicted"}, {"measured"}, {"error", "%"}});
  const double below = below_steady(of.row);
  table.row({"tokens per device per second" +
                 (below > 0 ? fmt::format(", {} below steady ones", percent(below)) : ""),
             "~" + significant(predicted.tokens_per_device_s, 4),
             tokens ? significant(*tokens, 4) : "", error_cell(of.time_error)});
  if (of.null_model_time_error)
    table.row({"  by the null model", "", "", error_cell(of.null_model_time_error)});
  add_memory(table, of);
  table.row(
      {"runs out of memory", predicted.fits ? "~no" : "~yes", oom ? (*oom ? "yes" : "no") : ""});
  return table.text();
}

}  // namespace

std::string validation_text(const Validation& validation) {
  const GroupScore& total = validation.total;
  std::string text = fmt::format(
      "{} of {} published rows priced; median and p90 of |error|, bias the median of errors, above "
      "zero where the prediction takes longer or more\n\n",
      total.n_rows - total.n_unsupported, total.n_rows);
  const std::vector<Column> strata = {
      {"machine", {}, Align::left}, {"framework", {}, Align::left}, {"model", {}, Align::left}};
  std::vector<GroupScore> groups = validation.strata;
  groups.push_back(total);
  groups.back().name.resize(strata.size());
  text += group_table(strata, groups) + "\n";
  text += group_table({{"source", {}, Align::left}}, validation.sources);
  text += reason_table(validation) + "\n";
  return text + oom_line(validation.oom) + layouts_line(validation.layouts) +
         printed_lines(validation);
}

std::string explanation_text(const RowScore& row, const RowPlan& plan, const Style& style) {
  std::string text = row_lines(row.row);
  if (row.printed_flops) text += printed_line(row.row, *row.printed_flops);
  if (!plan.plan)
    return text + fmt::format("\nnot priced because of: {}{}\n", plan.reason,
                              plan.detail.empty() ? "" : "; " + plan.detail);
  text += "\n" + error_table(row) + "\n";
  return text + estimate_text(*plan.plan, estimate(*plan.plan), style);
}

}  // namespace xt

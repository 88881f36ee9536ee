#include <algorithm>
#include <map>
#include <tuple>

#include "costmodel/diagnostics/check.h"
#include "planner/validate/row_notes.h"
#include "planner/validate/validate.h"

namespace xt {
namespace {

constexpr std::string_view kind_names[] = {"dense", "moe"};

std::vector<std::string> stratum_of(const PublishedRow& row) {
  return {row.machine, row.framework_family, std::string(kind_names[row.model.is_moe() ? 1 : 0])};
}

// By tokens: a step of a batch that no plan can have is still as long as its tokens take.
std::optional<double> time_error(const PublishedRow& row, const RowPrediction& predicted) {
  if (!row.is_usable_for(Use::time)) return std::nullopt;
  return *row.tokens_per_device_s() / predicted.tokens_per_device_s - 1;
}

// The distance between what may be predicted and what may have been measured.
std::optional<double> memory_error(const PublishedRow& row, const RowPrediction& predicted) {
  if (!row.is_usable_for(Use::memory)) return std::nullopt;
  const Bytes least = least_memory(row), most(*row.measured.peak_memory_bytes);
  const auto error_between = [&](Bytes low, Bytes high) {
    if (high < least) return high / least - 1;
    return low > most ? low / most - 1 : 0.0;
  };
  const auto error = [&](Bytes of) { return error_between(of, of); };
  if (has_open_memory(row))
    return error_between(predicted.allocated,
                         may_be_of_device(row) ? predicted.on_device() : predicted.reserved);
  switch (*row.measured.memory_kind) {
    case MemoryKind::allocated:
      return error(predicted.allocated);
    case MemoryKind::reserved:
      return error(predicted.reserved);
    case MemoryKind::device:
      return error(predicted.on_device());
  }
  return std::nullopt;
}

// Executed flops per device and second of the rows that share a rate in the null model.
class NullModel {
 public:
  explicit NullModel(const std::vector<RowScore>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].time_error) rates_[key_of(rows[i].row)].emplace_back(i, rate(rows[i]));
  }

  // What the rate of all rows but `rows[i]` makes of that row.
  std::optional<double> time_error(const std::vector<RowScore>& rows, std::size_t i) const {
    if (!rows[i].time_error) return std::nullopt;
    std::vector<double> others;
    for (const auto& [j, other] : rates_.at(key_of(rows[i].row)))
      if (j != i) others.push_back(other);
    const std::optional<double> constant = percentile(std::move(others), 0.5);
    if (!constant) return std::nullopt;
    return rate(rows[i]) / *constant - 1;
  }

 private:
  using Key = std::pair<std::vector<std::string>, bool>;

  static Key key_of(const PublishedRow& row) { return {stratum_of(row), row.has_fp8()}; }
  static double rate(const RowScore& of) {
    return of.outcome.predicted->hardware_flops_per_token * *of.row.tokens_per_device_s();
  }

  std::map<Key, std::vector<std::pair<std::size_t, double>>> rates_;
};

GroupScore group_score(std::vector<std::string> name, const std::vector<const RowScore*>& rows) {
  GroupScore group;
  group.name = std::move(name);
  group.n_rows = rows.size();
  std::vector<double> time, null_model_time, left_out_time, memory;
  for (const RowScore* of : rows) {
    if (!of->is_supported()) ++group.n_unsupported;
    if (of->time_error) time.push_back(*of->time_error);
    if (of->null_model_time_error) null_model_time.push_back(*of->null_model_time_error);
    if (of->left_out_time_error) left_out_time.push_back(*of->left_out_time_error);
    if (of->memory_error) memory.push_back(*of->memory_error);
    if (of->memory_error && has_open_memory(of->row)) ++group.n_open_memory;
  }
  group.time = summary_of(time);
  group.null_model_time = summary_of(null_model_time);
  group.left_out_time = summary_of(left_out_time);
  group.memory = summary_of(memory);
  return group;
}

template <typename NameOf>
std::vector<GroupScore> grouped(const std::vector<RowScore>& rows, NameOf name_of) {
  std::map<std::vector<std::string>, std::vector<const RowScore*>> members;
  for (const RowScore& of : rows) members[name_of(of.row)].push_back(&of);
  std::vector<GroupScore> groups;
  for (const auto& [name, of] : members) groups.push_back(group_score(name, of));
  return groups;
}

std::vector<std::pair<std::string, std::size_t>> count_reasons(const std::vector<RowScore>& rows) {
  std::map<std::string, std::size_t> counts;
  for (const RowScore& of : rows)
    if (!of.is_supported()) ++counts[of.outcome.reason];
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::ranges::stable_sort(reasons, std::ranges::greater(),
                           [](const auto& of) { return of.second; });
  return reasons;
}

OomScore oom_score(const std::vector<RowScore>& rows) {
  OomScore score;
  for (const RowScore& of : rows) {
    if (!of.is_supported()) continue;
    const bool is_called = !of.outcome.predicted->fits;
    if (of.row.is_usable_for(Use::oom)) ++(is_called ? score.n_called : score.n_missed);
    if (of.row.measured.oom.value_or(false)) continue;
    ++score.n_fitting;
    if (is_called) ++score.n_false;
  }
  return score;
}

PrintedScore printed_score(const std::vector<RowScore>& rows) {
  PrintedScore score;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].printed_flops) continue;
    ++score.n_rows;
    if (!rows[i].printed_flops->is_reproduced()) score.inconsistent.push_back(i);
  }
  return score;
}

// What tells layouts of one key apart.
auto layout_of(const PublishedRow& row) {
  return std::tuple(row.parallel, row.micro_batch_size, row.recompute, row.recompute_detail);
}

bool are_several(const std::vector<const RowScore*>& rows) {
  return std::ranges::any_of(
      rows, [&](const RowScore* of) { return layout_of(of->row) != layout_of(rows.front()->row); });
}

LayoutScore layout_score(const std::vector<const RowScore*>& rows) {
  std::vector<MeasuredLayout> layouts;
  for (const RowScore* of : rows)
    layouts.push_back({*of->row.tokens_per_device_s(), of->outcome.predicted->tokens_per_device_s});
  return {layout_key(rows.front()->row), rows.size(), regret(layouts), rank_correlation(layouts)};
}

std::vector<LayoutScore> layout_scores(const std::vector<RowScore>& rows) {
  std::vector<std::vector<const RowScore*>> groups;
  for (const RowScore& of : rows) {
    if (!of.time_error) continue;
    const auto group = std::ranges::find_if(groups, [&](const auto& others) {
      return layout_key(others.front()->row) == layout_key(of.row);
    });
    if (group == groups.end())
      groups.push_back({&of});
    else
      group->push_back(&of);
  }
  std::vector<LayoutScore> result;
  for (const auto& group : groups)
    if (are_several(group)) result.push_back(layout_score(group));
  return result;
}

}  // namespace

Validation score(const std::vector<PublishedRow>& rows, const std::vector<RowOutcome>& outcomes) {
  XT_CHECK(rows.size() == outcomes.size(), rows.size(), outcomes.size());
  Validation result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowScore of{rows[i], outcomes[i], {}, {}, {}, {}, printed_flops(rows[i])};
    if (of.is_supported()) {
      of.time_error = time_error(of.row, *of.outcome.predicted);
      if (of.outcome.left_out) of.left_out_time_error = time_error(of.row, *of.outcome.left_out);
      of.memory_error = memory_error(of.row, *of.outcome.predicted);
    }
    result.rows.push_back(std::move(of));
  }
  const NullModel null_model(result.rows);
  std::vector<const RowScore*> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.rows[i].null_model_time_error = null_model.time_error(result.rows, i);
    all.push_back(&result.rows[i]);
  }
  result.strata = grouped(result.rows, stratum_of);
  result.sources = grouped(
      result.rows, [](const PublishedRow& row) { return std::vector<std::string>{row.group()}; });
  result.total = group_score({"total"}, all);
  result.unsupported = count_reasons(result.rows);
  result.oom = oom_score(result.rows);
  result.printed = printed_score(result.rows);
  result.layouts = layout_scores(result.rows);
  return result;
}

}  // namespace xt

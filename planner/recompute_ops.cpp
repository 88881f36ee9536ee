#include "planner/recompute_ops.h"

#include <algorithm>

namespace xt {

Parsed<RecomputeOps> RecomputeOps::from_text(std::string_view text) {
  RecomputeOps ops;
  if (text == "all") return {ops};
  std::string_view rest = text;
  while (true) {
    const std::size_t end = std::min(rest.find('+'), rest.size());
    const auto found = std::ranges::find(recompute_op_names, rest.substr(0, end));
    if (found == recompute_op_names.end())
      return Parsed<RecomputeOps>::failed("expected " + std::string(type_name) + ", found `" +
                                          std::string(text) + "`");
    ops.add(static_cast<RecomputeOp>(found - recompute_op_names.begin()));
    if (end == rest.size()) return {ops};
    rest.remove_prefix(end + 1);
  }
}

std::string RecomputeOps::text() const {
  if (is_all()) return "all";
  std::string result;
  for (std::size_t i = 0; i < recompute_op_names.size(); ++i) {
    if (!has(static_cast<RecomputeOp>(i))) continue;
    if (!result.empty()) result += '+';
    result += recompute_op_names[i];
  }
  return result;
}

}  // namespace xt

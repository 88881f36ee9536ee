#include "planner/validate/row_routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "costmodel/packing/log_normal.h"

namespace xt {
namespace {

// A text has a router of its own, where tokens are not drawn.
constexpr std::array<std::string_view, 2> natural_phrases = {"natural routing", "packed C4 text"};

constexpr double variation_of_loads = 0.95;

// What the largest of `n` normal numbers is expected to be.
double largest_normal(double n) {
  const double share_below = (n - 0.375) / (n + 0.25);
  return std::log(log_normal_quantile(1, 1, share_below));
}

// As the row's field says; where it does not, as its notes do.
bool is_natural(const PublishedRow& row) {
  if (row.moe_balance) return *row.moe_balance == MoeBalance::natural;
  return std::ranges::any_of(natural_phrases, [&](std::string_view phrase) {
    return row.notes.find(phrase) != std::string::npos;
  });
}

}  // namespace

double routing_imbalance(const PublishedRow& row) {
  if (!is_natural(row) || row.parallel.ep == 1) return 1;
  const auto ranks = static_cast<double>(row.parallel.ep);
  const auto experts = static_cast<double>(*row.model.num_experts);
  return 1 + variation_of_loads * std::sqrt(ranks / experts) * largest_normal(ranks);
}

}  // namespace xt

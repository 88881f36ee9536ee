#include "planner/validate/layouts.h"

#include <algorithm>
#include <cmath>

namespace xt {
namespace {

// The rank of each value, from 1; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double value : values) {
    const auto less = std::ranges::count_if(values, [&](double other) { return other < value; });
    const auto equal = std::ranges::count(values, value);
    result.push_back(static_cast<double>(less) + static_cast<double>(equal + 1) / 2);
  }
  return result;
}

// Of as many values on both sides; the mean of ranks is known.
std::optional<double> correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean = (static_cast<double>(x.size()) + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace

double regret(const std::vector<MeasuredLayout>& layouts) {
  const double best = std::ranges::max_element(layouts, {}, &MeasuredLayout::measured)->measured;
  return 1 - std::ranges::max_element(layouts, {}, &MeasuredLayout::predicted)->measured / best;
}

std::optional<double> rank_correlation(const std::vector<MeasuredLayout>& layouts) {
  if (layouts.size() < 3) return std::nullopt;
  std::vector<double> measured, predicted;
  for (const MeasuredLayout& of : layouts) {
    measured.push_back(of.measured);
    predicted.push_back(of.predicted);
  }
  return correlation(ranks(measured), ranks(predicted));
}

std::vector<std::string> layout_key(const PublishedRow& row) {
  return {row.group(),
          row.model.name,
          row.machine,
          std::to_string(row.devices),
          std::to_string(row.seq_len),
          row.precision,
          row.global_batch_size ? std::to_string(*row.global_batch_size) : ""};
}

}  // namespace xt

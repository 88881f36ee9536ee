#pragma once

// Where a source measured one model in several layouts: what it costs to believe the prediction of
// which is fastest.

#include <optional>
#include <string>
#include <vector>

#include "planner/validate/published_row.h"

namespace xt {

/// A layout: tokens per device per second, measured and predicted.
struct MeasuredLayout {
  double measured = 0;
  double predicted = 0;
};

/// What the layout that is predicted to be fastest is slower than the fastest one, relative.
///
/// Assumes: at least one layout
double regret(const std::vector<MeasuredLayout>& layouts);

/// Spearman's correlation of measured and predicted ranks; equal values share their mean rank. None
/// below three layouts, or where all of them are equal.
///
/// Source: Spearman 1904, "The proof and measurement of association between two things"
std::optional<double> rank_correlation(const std::vector<MeasuredLayout>& layouts);

/// What rows of one model have in common whose layouts can be compared: source, model, machine,
/// devices, length of sequences, format of products and batch.
std::vector<std::string> layout_key(const PublishedRow& row);

/// Layouts of one key.
struct LayoutScore {
  std::vector<std::string> key;
  std::size_t n = 0;
  double regret = 0;
  std::optional<double> rank_correlation;
};

}  // namespace xt

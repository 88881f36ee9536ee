#pragma once

// How unequal the router of a published row leaves ranks.

#include "planner/validate/published_row.h"

namespace xt {

/// Rows of the rank with most over the mean of the ranks that share a layer's experts: 1 where
/// routing is forced or capacities cut it, or where nothing is said.
///
///   1 + v · √(ep / X) · z(ep)
///
/// where v is how much experts' loads vary over their mean, and z the largest of ep normal numbers.
///
/// Assumes: a natural router early in training, experts independent of each other
/// Source:  torchtitan at 91f6215, DeepSeek-V3 16B over 8 ranks, 20 steps: 16.64 % of the peak by
///          its router and 19.97 % forced, which 1.48 times the mean on the fullest rank costs;
///          Blom 1958, "Statistical estimates and transformed beta-variables", for z
double routing_imbalance(const PublishedRow& row);

}  // namespace xt

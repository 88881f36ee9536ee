#pragma once

// The demand of each class of kernels, one file per class; `demand` picks among them and adds what
// they have in common. Only for costmodel/cost.

#include <array>

#include "costmodel/cost/demand.h"

namespace xt {

/// Everything a demand depends on.
struct Pricing {
  const Work& work;
  const Bindings& bindings;
  const GroupShape& group;
  const Profile& profile;
  double clock = 1;  ///< of products, over that of short runs

  /// Extent `i` of the kernel's row.
  [[nodiscard]] double extent(std::size_t i) const {
    return static_cast<double>(work.extent(i, bindings));
  }
  [[nodiscard]] double width() const { return static_cast<double>(xt::width(work.dtype)); }
};

/// A matrix product seen as one of `rows` × `columns` with `inner` terms each, whatever the pass.
struct ProductShape {
  double rows = 0;
  double columns = 0;
  double inner = 0;
};

/// The product that the kernel of a single matmul computes.
///
/// Shapes:  forward [m,n] over k; input backward [m,k] over n; weight backward [n,k] over m
ProductShape product(const Work& work, const Bindings& bindings);

/// The demand of a matrix product.
Demand matmul_demand(const Pricing& pricing);
/// The demand of matrix products grouped by expert.
Demand grouped_matmul_demand(const Pricing& pricing);
/// The demand of a batch of equal products.
Demand batched_matmul_demand(const Pricing& pricing);
/// The demand of causal attention over packed documents.
Demand attention_demand(const Pricing& pricing);
/// The demand of a kernel that computes little per byte.
Demand memory_bound_demand(const Pricing& pricing);
/// The demand of a pass over flat shards.
Demand optimizer_demand(const Pricing& pricing);
/// The demand of a collective over the work's group.
Demand collective_demand(const Pricing& pricing);
/// Whether `work` exchanges copies of tokens, of which a node that `group` spans gets one each.
bool sends_once_per_node(const Work& work, const GroupShape& group, const Profile& profile);
/// The ranks of `group` that share a node.
GroupShape in_a_node(const GroupShape& group, const Profile& profile);
/// Bytes that a rank sends to other nodes where a node gets a token once.
///
///   T · (n − 1) · (1 − (1 − 1/n)^k) · E · width,  n nodes
///
/// Assumes: each of a token's k experts lies on any of the nodes with the same chance
/// Source:  derived; DeepEP (deepseek-ai/DeepEP), csrc/kernels/internode.cu, and its Hybrid-EP: a
///          token crosses the network once per node, and is spread there over NVLink
double bytes_to_other_nodes(const Pricing& pricing);
/// The demand of an exchange that sends once per node: the links between nodes as long as a plain
/// exchange that sends as much to other nodes, and beside it the links inside as long as a plain
/// exchange of all copies that a rank receives, which pass from any rank of the node to any other.
///
/// Source:  Hybrid-EP_Implementation.md of DeepEP, H100, 4096 tokens of 7168, k 8, 32 and 64 ranks:
///          57.7 and 50.0 GB/s with the rank's own node counted, 43 and 44 of them on the network
Demand token_exchange_demand(const Pricing& pricing);
/// The demand of what the host computes.
Demand host_demand(const Pricing& pricing);
/// The demand of a copy between device and host.
Demand copy_demand(const Pricing& pricing);

/// Flops of making a matrix orthogonal, and bytes of the operands.
double newton_schulz_flops(const Work& work, const Bindings& bindings);
double newton_schulz_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the operands of a matrix product.
double matmul_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the operands of a batch of equal products.
double batched_matmul_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the operands of grouped matrix products.
double grouped_matmul_bytes(const Work& work, const Bindings& bindings);
/// Twice the pairs of query and key that causal attention scores: Σs², less where a window w hides
/// what lies farther back.
///
///   T · (2w − w²/s̄),  s̄ = Σs²/T,  where s̄ > w
///
/// Assumes: samples are as long as a token's own is in the mean; unequal ones score fewer
/// Source:  derived: a sample of s > w tokens scores w²/2 pairs in its first w and w for each other
double scored_pairs_twice(const Work& work, const Bindings& bindings);
/// Bytes of the operands of attention.
double attention_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the operands of a kernel that computes little per byte.
double memory_bound_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the shards that a pass of the optimizer reads and writes.
double optimizer_bytes(const Work& work, const Bindings& bindings);
/// Bytes of the whole message of a collective.
double collective_bytes(const Work& work, const Bindings& bindings);
/// Bytes of host memory that what the host computes moves.
double host_bytes(const Work& work, const Bindings& bindings);
/// Bytes that a copy moves.
double copy_bytes(const Work& work, const Bindings& bindings);

/// Whether `kernel` belongs to the optimizer rather than to the layers.
constexpr bool is_optimizer(Kernel kernel) {
  return kernel == Kernel::adamw || kernel == Kernel::clip || kernel == Kernel::square_sum ||
         kernel == Kernel::muon_momentum || kernel == Kernel::muon_update;
}

/// Whether experts have a product each.
bool is_apart(const Work& work);

/// Whether `kernel` adds to what its output holds.
constexpr bool adds(Kernel kernel) {
  return kernel == Kernel::matmul_input_backward_add ||
         kernel == Kernel::matmul_weight_backward_add ||
         kernel == Kernel::grouped_matmul_weight_backward_add;
}

/// Kernels that `work` is issued as; they follow each other and share its elements equally.
double calls(const Work& work, const Bindings& bindings);

/// Seconds of `bytes` through device memory at the profile's fraction for that size, or at the
/// kernel's own measured fraction.
Seconds memory_time(const Pricing& pricing, double bytes);

/// Seconds of `flops` on the matrix units at `efficiency` of the peak of the work's dtype.
Seconds matrix_time(const Pricing& pricing, Flops flops, double efficiency);

/// The measured efficiency of the work's own kernel at its extents, if the profile has one.
std::optional<double> measured_efficiency(const Pricing& pricing);

}  // namespace xt

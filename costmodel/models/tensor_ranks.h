#pragma once

// Tensor parallelism: ranks that share each product of a layer by columns, then by rows of its
// weight, and that may share norms and residuals by tokens (sequence parallelism).

#include <string_view>

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/decoder.h"

namespace xt {

/// Writes the exchanges between the ranks; none where one rank has everything.
///
/// Shapes:  x [R,E] where the ranks share tokens, else [T,E]; a partial sum [T,E]
/// Assumes: PyTorch's ranks have a part of each sample, and collectives put ranks first
/// Source:  PyTorch, distributed/_functional_collectives.py, all_gather_tensor and
///          reduce_scatter_tensor along another dimension than the first; Shoeybi et al. 2019,
///          "Megatron-LM", arXiv 1909.08053, section 3; Korthikanti et al. 2022, "Reducing
///          Activation Recomputation", arXiv 2205.05198, section 4.2.2
class TensorRanks {
 public:
  TensorRanks(BlockWriter& write, const GraphOptions& options, std::int64_t width);

  bool is_one() const { return ranks_ == 1; }
  /// Whether products of weight gradients run beside the sum of the input's gradient.
  bool overlaps() const { return ranks_ > 1 && overlaps_; }
  /// A rank's part of `n` heads, columns or rows.
  ///
  /// Assumes: the ranks divide `n`, or the last one's part is padded
  std::int64_t part_of(std::int64_t n) const { return (n + ranks_ - 1) / ranks_; }

  /// What products see of `x`: all tokens, gathered where ranks share them.
  ValueId whole(Pass pass, std::string_view part, ValueId x);
  /// The same in the backward pass, of what the forward pass saw as `seen`.
  ValueId whole_again(std::string_view part, ValueId x, ValueId seen);
  /// Where a product writes this rank's part of a sum over ranks that ends up in `sum`.
  ValueId partial(ValueId sum);
  /// Sums the ranks' `partial` into `sum`, of which each keeps its tokens.
  void add_up(Pass pass, std::string_view part, ValueId partial, ValueId sum);

 private:
  bool shares_tokens() const { return ranks_ > 1 && shares_tokens_; }
  ValueId reordered(Pass pass, std::string_view part, ValueId x);

  BlockWriter& write_;
  std::int64_t tokens_, ranks_, width_;
  bool shares_tokens_, overlaps_, copies_;
  DType dtype_;
};

}  // namespace xt

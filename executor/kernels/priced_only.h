#pragma once

// Kernels that no schedule of an executed engine has.

#include "costmodel/ir/kernel.h"

namespace xt {

/// Whether only engines that are priced and never executed use `kernel`, which has no function:
/// those of attention that is not fused, dropout, and products of experts that add.
constexpr bool is_priced_only(Kernel kernel) {
  switch (kernel) {
    case Kernel::batched_matmul:
    case Kernel::softmax:
    case Kernel::softmax_backward:
    case Kernel::dropout:
    case Kernel::dropout_backward:
    case Kernel::dropout_add:
    case Kernel::grouped_matmul_weight_backward_add:
      return true;
    default:
      return false;
  }
}

}  // namespace xt

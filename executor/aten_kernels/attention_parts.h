#pragma once

// Operands of attention and its backward, and the kernel that takes them whole where the device has
// one. Private to aten_kernels/.

#include <cmath>

#include "executor/aten_kernels/operands.h"

namespace xt {

/// Extents of an attention op. A query sees `reach` keys at most, its own among them.
struct AttentionExtents {
  std::int64_t T, H, K, D, reach;
  bool has_window;  ///< else reach is the longest document
  double scale;

  explicit AttentionExtents(const KernelCall& call)
      : T(call.extent(0)),
        H(call.extent(1)),
        K(call.extent(2)),
        D(call.extent(3)),
        reach(call.extent(5)),
        has_window(!call.work.extents[5].is_symbol()),
        scale(call.constants.attention_scale / std::sqrt(static_cast<double>(D))) {
    XT_CHECK(K > 0 && H % K == 0, H, K);
  }
};

/// Whether FlashAttention of the device takes the call: 16-bit heads of up to 256 columns in
/// eights, and a pack whose documents somebody has counted.
bool fits_flash(const KernelCall& call, const AttentionExtents& of);

/// o and lse, without sinks.
///
/// Shapes:  lse [T,H] fp32
/// Source:  ATen, native/transformers/cuda/attention.cu, _flash_attention_forward
struct FlashForward {
  at::Tensor o, lse;
};
FlashForward flash_forward(const KernelCall& call, const AttentionExtents& of);

/// dq, dk and dv into the outputs of the call.
///
/// Source:  ATen, native/transformers/cuda/attention_backward.cu, _flash_attention_backward
void flash_backward(const KernelCall& call, const AttentionExtents& of);

}  // namespace xt

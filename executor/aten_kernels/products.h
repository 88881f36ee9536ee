#pragma once

// Matrix products that sum in fp32 whatever their operands are. Private to aten_kernels/.

#include <optional>

#include "executor/aten_kernels/operands.h"

namespace xt {

/// Whether a product adds to what is there.
enum class Adds : bool { no, yes };

/// to = a·b, or to + a·b. Operands are multiplied as they are in fp32, and in bf16 where the device
/// has instructions for it; elsewhere they are widened.
///
/// Shapes:  a [m,k], b [k,n], to [m,n], each with any strides
void multiply_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                   Adds adds = Adds::no);

/// to = a·b with `bias` [n] added to every row before anything is rounded.
void multiply_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                   const at::Tensor& to);

}  // namespace xt

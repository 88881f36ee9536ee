#pragma once

// How kernels get at bf16 operands that are multiplied as they are. Private to kernels/.

#include <algorithm>

#include "executor/kernels/bf16_gemm.h"
#include "executor/kernels/operands.h"

namespace xt {

/// Whether all operands of a product are bf16: both factors, what is added, and the output.
/// `counts` may stand between them.
inline bool is_narrow(const KernelCall& call) {
  const auto is_bf16_or_whole = [](const at::Tensor& operand) {
    return operand.scalar_type() == at::kBFloat16 || operand.scalar_type() == at::kLong;
  };
  return std::ranges::all_of(call.inputs, is_bf16_or_whole) &&
         std::ranges::all_of(call.outputs, is_bf16_or_whole);
}

/// Workspaces of a product: what its operands take in fp32, as schedules have it on any CPU.
class NarrowWorkspace {
 public:
  NarrowWorkspace(std::int64_t a, std::int64_t b, std::int64_t c)
      : a_(scratch(a, 1)), b_(scratch(b, 1)), c_(scratch(c, 1)) {}
  GemmWorkspace pointers() const {
    return {a_.mutable_data_ptr<float>(), b_.mutable_data_ptr<float>(),
            c_.mutable_data_ptr<float>()};
  }

 private:
  at::Tensor a_, b_, c_;
};

}  // namespace xt

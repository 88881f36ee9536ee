#pragma once

// What runs when an op of a compute lane runs: one function per kernel of ir/kernel.h. A kernel
// reads its operands and its work and knows nothing else: no schedule, no buffer, no lane.
//
// Operands are contiguous and hold exactly the elements that the kernel's row names, in row-major
// order. Kernels take every size from the work and never look at a tensor's dimensions, so a [T,1]
// may come as [T] or as [T,1,1].
//
// Every output is written where it is. What a call allocates beside it is its workspace, declared
// by xt_run_workspaces() and held to that by a test.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

#include "costmodel/ir/kernel.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/ir/work.h"

namespace xt {

/// Numbers of the optimizer that change from step to step, or that the model does not decide.
struct StepConstants {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_grad_norm = 1;
  std::int64_t step = 1;    ///< counts from 1
  std::int64_t update = 1;  ///< of parameters, counts from 1: steps that were skipped made none
  double momentum = 0.95;   ///< of Muon
  double router_bias_update_speed = 0.001;
  double balance_loss = 0;  ///< coefficient of the auxiliary loss, over the packs of a step
};

/// One call of a kernel; inputs and outputs in the roles of its row.
struct KernelCall {
  const Work& work;
  const Bindings& bindings;
  std::span<const at::Tensor> inputs;
  std::span<const at::Tensor> outputs;
  const ModelConstants& constants;
  const StepConstants& step;
  std::int32_t place = 0;      ///< of this rank in the work's group
  std::int64_t documents = 0;  ///< in the pack that attention sees; 0 where nobody counted them

  /// Extent `i` of the kernel's row.
  std::int64_t extent(std::size_t i) const { return work.extent(i, bindings); }
};

using KernelFunction = void (*)(const KernelCall&);

/// By Kernel; null for collectives, copies and host ops, which lanes do themselves.
using KernelTable = std::array<KernelFunction, n_kernels>;

/// The entry of `kernel`.
inline KernelFunction& entry(KernelTable& table, Kernel kernel) {
  return table[static_cast<std::size_t>(kernel)];
}

/// Checks that `table` has every kernel that is executed by a function, and no other.
void check_complete(const KernelTable& table);

/// How products of bf16 operands are computed. Either way they are summed in fp32 and take the same
/// memory, as a schedule does not know the CPU.
enum class Bf16Products : bool {
  widened,      ///< to fp32 first
  as_they_are,  ///< by instructions for them
};

/// What is fastest on this CPU.
Bf16Products bf16_products_of_cpu();

/// The kernels of this machine's CPU: fp32 and bf16 operands, all sums in fp32.
///
/// Assumes: a BLAS with the standard symbol sgemm_, as in the PyPI build of LibTorch
KernelTable cpu_kernels(Bf16Products products = bf16_products_of_cpu());

}  // namespace xt

#pragma once

// Which kernels are measured at which sizes: grids over the extents that their time depends on,
// from small to medium training steps. Knows no machine.

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/ir/kernel.h"
#include "costmodel/ir/work.h"

namespace xt {

/// How much ground the grids cover, and so how long measuring takes: the sizes of small models,
/// those of what CPUs train, and those of devices of their own.
enum class Coverage : std::uint8_t { quick, full, large };

/// The sizes of one kernel.
struct KernelCases {
  Kernel kernel = Kernel::add;
  std::vector<std::string> axes;  ///< as in KernelEfficiency
  Work smallest;                  ///< so small that only its fixed time is left
  std::vector<Work> points;       ///< no two at the same place
};

/// The sizes of every kernel that computes in `dtype`, which is fp32, or bf16 for those that layers
/// run in it; no call moves more than largest_call_bytes().
std::vector<KernelCases> kernel_cases(Coverage coverage, DType dtype = DType::fp32);

/// No operand list of a case is longer.
constexpr std::int64_t largest_call_bytes(Coverage coverage) {
  return std::int64_t{coverage == Coverage::large ? 1024 : 128} << 20;
}

/// Where `work` lies on `axes`, in the order of the axes.
///
/// Assumes: all extents are numbers, and each axis is one of the kernel's
std::vector<double> coordinates(const Work& work, const std::vector<std::string>& axes);

}  // namespace xt

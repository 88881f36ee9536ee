#pragma once

// One call of a kernel under test, with the laws that every call obeys: the same bits every time,
// and exactly the workspace that xt-plan declares. Kernels are those of the CPU, or, where the
// program's argument is widened, those of a CPU without bf16 instructions, where it is
// aten_kernels, those in terms of ATen, whose workspace nobody declares, and where it is cuda, the
// same on the first GPU.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

#include "executor/kernels/kernel_table.h"

namespace xt {

/// Element types of activations.
inline constexpr std::array<DType, 2> activation_types = {DType::fp32, DType::bf16};

struct Call {
  Kernel kernel;
  DType dtype = DType::fp32;
  std::vector<Extent> extents;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs{};
  ModelConstants constants{};
  StepConstants step{};
  Bindings bindings{};
  std::int64_t documents = 0;
};

/// Runs the kernel twice from the same operands and leaves the outputs of the second run. Expects
/// equal bits, untouched inputs, and allocations of exactly the declared workspace, if there is
/// one.
void run(const Call& call);

/// Normal random numbers, the same in every run of a test.
at::Tensor random(at::IntArrayRef shape, DType dtype = DType::fp32);

/// Memory with nothing sensible in it: NaN.
at::Tensor garbage(at::IntArrayRef shape, DType dtype = DType::fp32);

at::ScalarType scalar_type(DType dtype);

/// A random whole number in [low, high].
std::int64_t pick(std::int64_t low, std::int64_t high);

/// A leaf of a double-precision graph with the values of `tensor`.
at::Tensor leaf(const at::Tensor& tensor);

/// Gradients of Σ y·dy with respect to the leaf are in its grad() afterwards.
void differentiate(const at::Tensor& y, const at::Tensor& dy);

/// Expects |got − want| ≤ tolerance · |want|: 1e-5 in fp32, 2e-2 in bf16.
void expect_close(const at::Tensor& got, const at::Tensor& want, DType dtype);

}  // namespace xt

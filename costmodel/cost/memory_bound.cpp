// Kernels that compute little per byte: norms, activations, rotary embedding, routing, rearranging.

#include <algorithm>

#include "costmodel/cost/classes.h"

namespace xt {
namespace {

constexpr double index_bytes = 8;  // indices, tokens and counts are int64
constexpr double fp32_bytes = 4;
constexpr double mask_bytes = 1;

// Elements of one kernel call, in the order of its extents, and the width of one.
struct Shape {
  double a, b, c, width;
};

bool is_any(Kernel kernel, std::initializer_list<Kernel> kernels) {
  return std::ranges::find(kernels, kernel) != kernels.end();
}

double embedding_kernels(Kernel kernel, const Shape& s) {
  const double rows = s.a * s.b * s.width;
  return s.a * index_bytes + (kernel == Kernel::embedding ? 2 : 3) * rows;
}

// The gradient of x and that of the weight are two kernels, each of which reads dy and x.
//
// Source: PyTorch, aten/src/ATen/native/cuda/layer_norm_kernel.cu
constexpr double layer_norm_backward_passes = 5;

double norm_kernels(Kernel kernel, const Shape& s) {
  if (kernel == Kernel::layer_norm_backward)
    return 2 * s.a * fp32_bytes + layer_norm_backward_passes * s.a * s.b * s.width;
  const bool is_forward = is_any(kernel, {Kernel::rms_norm, Kernel::layer_norm});
  const bool has_mean = kernel == Kernel::layer_norm;
  return (has_mean ? 2 : 1) * s.a * fp32_bytes + (is_forward ? 2 : 3) * s.a * s.b * s.width;
}

double rotary_kernels(Kernel kernel, const Shape& s) {
  if (kernel == Kernel::rope_table) return s.a * index_bytes + s.a * s.b * fp32_bytes;
  return s.a * s.c * fp32_bytes + 2 * s.a * s.b * s.c * s.width;
}

// T X k. A row sort passes over the pairs of key and position about four times.
double routing_kernels(Kernel kernel, const Shape& s) {
  constexpr double sort_passes = 4;
  const double logits = s.a * s.b * s.width;
  const double chosen = s.a * s.c;
  if (kernel == Kernel::sort_rows) return sort_passes * 2 * chosen * index_bytes;
  const double passes = is_any(kernel, {Kernel::softmax_top_k, Kernel::sigmoid_top_k}) ? 1 : 2;
  return passes * logits + chosen * (s.width + index_bytes);
}

// What is read of the rows, and rows written whole, or n columns of them read and written.
double column_kernels(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const double columns = extent(6), width_of = static_cast<double>(width(work.dtype));
  const double written = work.kernel == Kernel::copy_columns ? extent(4) : 2 * columns;
  return (extent(0) * columns + extent(3) * written) * width_of;
}

// Of a router's bias: choices and the load that they are added to, or the load and the bias.
double bias_kernels(Kernel kernel, const Shape& s) {
  if (kernel == Kernel::update_router_bias) return 3 * s.a * fp32_bytes;
  return s.a * s.c * index_bytes + 2 * s.b * fp32_bytes;
}

// T E k, except regroup and ungroup: R E.
double row_kernels(Kernel kernel, const Shape& s) {
  const double row = s.b * s.width;
  const double tokens = s.a * row;
  const double routed = s.c * tokens;
  const double order = s.a * s.c * index_bytes;
  if (kernel == Kernel::permute) return 2 * routed + order;
  if (kernel == Kernel::permute_backward_add) return routed + 2 * tokens + order;
  if (kernel == Kernel::unpermute) return routed + tokens + order;
  if (kernel == Kernel::unpermute_backward) return 2 * routed + tokens + order;
  return 2 * tokens;
}

// The gradient takes the place of the logits: two reads and a write.
double cross_entropy_bytes(const Shape& s) { return s.a * index_bytes + 3 * s.a * s.b * s.width; }

// B m n of attention's scores under a causal mask. Half of each tensor is read; a forward pass
// writes zeros where the mask is, a backward pass writes in place of what it reads.
//
// Source: Megatron-LM, megatron/fused_kernels/scaled_upper_triang_masked_softmax.h
double softmax_kernels(Kernel kernel, const Shape& s) {
  const double halves_read = kernel == Kernel::softmax ? 1 : 2;
  return (halves_read / 2 + 1) * s.a * s.b * s.c * s.width;
}

// Dropout has a byte of mask for every element, beside what it reads and writes.
//
// Source: PyTorch, aten/src/ATen/native/cuda/Dropout.cu
double dropout_kernels(Kernel kernel, const Shape& s) {
  const double tensors = kernel == Kernel::dropout_add ? 3 : 2;
  return s.a * (tensors * s.width + mask_bytes);
}

double flat_kernels(Kernel kernel, const Shape& s) {
  if (is_any(kernel, {Kernel::add, Kernel::sum, Kernel::multiply, Kernel::silu_backward}))
    return 3 * s.a * s.width;
  if (kernel == Kernel::silu) return 2 * s.a * s.width;
  if (kernel == Kernel::cast) return s.a * s.b;
  return s.a * s.width;
}

// Operations of the vector units per element of traffic: an exponential or a root with a few
// multiplications about it in all of these, within a factor of two.
constexpr double operations_per_element = 5;

}  // namespace

/// Every operand once, in the roles and extents of ir/kernel.h.
///
/// Assumes: operands that are added to are read and written; the embedding's backward pass touches
///          only the rows of its tokens
/// Source:  derived from the operands
double memory_bound_bytes(const Work& work, const Bindings& bindings) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, bindings)); };
  const Shape shape = {extent(0), extent(1), extent(2), static_cast<double>(width(work.dtype))};
  const Kernel kernel = work.kernel;
  if (is_any(kernel, {Kernel::embedding, Kernel::embedding_backward}))
    return embedding_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::rms_norm, Kernel::rms_norm_backward, Kernel::layer_norm,
                      Kernel::layer_norm_backward}))
    return norm_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::rope_table, Kernel::rope, Kernel::rope_backward}))
    return rotary_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::softmax_top_k, Kernel::softmax_top_k_backward, Kernel::sigmoid_top_k,
                      Kernel::sigmoid_top_k_backward, Kernel::sort_rows}))
    return routing_kernels(kernel, shape);
  if (kernel == Kernel::balance_backward) return 3 * shape.a * shape.b * shape.width;
  if (is_any(kernel, {Kernel::count_rows, Kernel::update_router_bias}))
    return bias_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::copy_columns, Kernel::add_columns}))
    return column_kernels(work, bindings);
  if (kernel == Kernel::sinks_backward)
    return shape.a * shape.b * (2 * shape.c * shape.width + fp32_bytes);
  if (is_any(kernel, {Kernel::permute, Kernel::permute_backward_add, Kernel::unpermute,
                      Kernel::unpermute_backward, Kernel::regroup, Kernel::ungroup}))
    return row_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::swiglu, Kernel::swiglu_clamped, Kernel::silu_multiply}))
    return 3 * shape.a * shape.b * shape.width;
  if (is_any(kernel, {Kernel::swiglu_backward, Kernel::swiglu_clamped_backward,
                      Kernel::silu_multiply_backward}))
    return 5 * shape.a * shape.b * shape.width;
  if (is_any(kernel, {Kernel::softmax, Kernel::softmax_backward}))
    return softmax_kernels(kernel, shape);
  if (is_any(kernel, {Kernel::dropout, Kernel::dropout_backward, Kernel::dropout_add}))
    return dropout_kernels(kernel, shape);
  if (kernel == Kernel::sum_rows) return (shape.a + 1) * shape.b * shape.width;
  if (kernel == Kernel::sum_expert_rows) return (shape.a + shape.c) * shape.b * shape.width;
  if (kernel == Kernel::gelu) return 2 * shape.a * shape.b * shape.width;
  if (kernel == Kernel::gelu_backward) return 3 * shape.a * shape.b * shape.width;
  if (kernel == Kernel::cross_entropy) return cross_entropy_bytes(shape);
  return flat_kernels(kernel, shape);
}

/// Bytes over the fraction of the memory bandwidth for that many; vector units where the profile
/// knows their rate.
///
/// Assumes: a handful of vector operations per element
/// Source:  Williams, Waterman, Patterson 2009, "Roofline", CACM 52(4)
Demand memory_bound_demand(const Pricing& pricing) {
  const double bytes = memory_bound_bytes(pricing.work, pricing.bindings);
  Demand demand;
  demand.on(Resource::hbm) = memory_time(pricing, bytes);
  if (pricing.profile.vector && !measured_efficiency(pricing))
    demand.on(Resource::vector) =
        Flops(operations_per_element * bytes / pricing.width()) / pricing.profile.vector->value;
  return demand;
}

}  // namespace xt

#include <algorithm>

#include "planner/lower/engine.h"

namespace xt {
namespace {

using Shape = std::array<Extent, 3>;

// xt_run sums products in fp32: operands of another type have a stand-in for the length of the
// call, in which they are widened or, on a CPU that multiplies bf16, packed.
void stand_ins(const Work& work, std::initializer_list<Shape> operands,
               std::vector<WorkspaceSpec>& list) {
  if (work.dtype == DType::fp32) return;
  for (const Shape& shape : operands) list.push_back({shape, DType::fp32});
}

// Scores of a block of query rows against the longest document, or all keys of a window that a row
// of the block sees; the backward holds their gradient
// too.
void attention_workspaces(const Work& work, int blocks, std::vector<WorkspaceSpec>& list) {
  constexpr std::int64_t query_rows = 64;
  const Extent reach = work.extents[5];
  const Extent longest = reach.is_symbol() ? reach : Extent(reach.code + query_rows);
  for (int block = 0; block < blocks; ++block)
    list.push_back({{query_rows, longest, 1}, DType::fp32});
}

}  // namespace

void xt_run_workspaces(const Work& work, std::vector<WorkspaceSpec>& list) {
  const auto& e = work.extents;
  const Shape queries{e[0], e[1], e[3]}, keys{e[6], e[2], e[3]};
  switch (work.kernel) {
    case Kernel::matmul:
    case Kernel::matmul_input_backward:
    case Kernel::matmul_input_backward_add:
    case Kernel::matmul_weight_backward:
    case Kernel::matmul_weight_backward_add:
    case Kernel::grouped_matmul:
    case Kernel::grouped_matmul_input_backward:
    case Kernel::grouped_matmul_weight_backward:
    case Kernel::grouped_matmul_weight_backward_add:
      stand_ins(work, {{e[0], e[1], 1}, {e[0], e[2], 1}, {e[1], e[2], 1}}, list);
      break;
    case Kernel::rms_norm_backward:
    case Kernel::layer_norm_backward:
      stand_ins(work, {{e[1], 1, 1}}, list);
      break;
    case Kernel::attention:
      stand_ins(work, {queries, keys, keys, queries}, list);
      attention_workspaces(work, 1, list);
      break;
    case Kernel::attention_backward:
      stand_ins(work, {queries, queries, keys, keys, queries, queries, keys, keys}, list);
      attention_workspaces(work, 2, list);
      break;
    case Kernel::orthogonalise: {
      const Extent s = std::min(e[0], e[1]), l = std::max(e[0], e[1]);
      for (const Shape& shape : {Shape{s, l, 1}, Shape{s, s, 1}, Shape{s, s, 1}, Shape{s, l, 1}})
        list.push_back({shape, DType::fp32});
      break;
    }
    case Kernel::permute_backward_add:
    case Kernel::unpermute:
      list.push_back({{e[0], e[2], 1}, DType::int32});
      break;
    case Kernel::sigmoid_top_k:
      list.push_back({{e[0], e[1], 1}, DType::fp32});
      break;
    case Kernel::balance_backward:
    case Kernel::cross_entropy:
      list.push_back({{e[0], 1, 1}, DType::fp32});
      break;
    case Kernel::embedding:
    case Kernel::embedding_backward:
    case Kernel::rms_norm:
    case Kernel::layer_norm:
    case Kernel::sum_rows:
    case Kernel::rope_table:
    case Kernel::rope:
    case Kernel::rope_backward:
    case Kernel::copy_columns:
    case Kernel::add_columns:
    case Kernel::sinks_backward:
    case Kernel::batched_matmul:
    case Kernel::softmax:
    case Kernel::softmax_backward:
    case Kernel::dropout:
    case Kernel::dropout_backward:
    case Kernel::dropout_add:
    case Kernel::add:
    case Kernel::sum:
    case Kernel::swiglu:
    case Kernel::swiglu_backward:
    case Kernel::swiglu_clamped:
    case Kernel::swiglu_clamped_backward:
    case Kernel::silu:
    case Kernel::silu_backward:
    case Kernel::multiply:
    case Kernel::silu_multiply:
    case Kernel::silu_multiply_backward:
    case Kernel::gelu:
    case Kernel::gelu_backward:
    case Kernel::softmax_top_k:
    case Kernel::softmax_top_k_backward:
    case Kernel::count_rows:
    case Kernel::update_router_bias:
    case Kernel::sigmoid_top_k_backward:
    case Kernel::sort_rows:
    case Kernel::permute:
    case Kernel::unpermute_backward:
    case Kernel::regroup:
    case Kernel::ungroup:
    case Kernel::sum_expert_rows:
    case Kernel::fill_zero:
    case Kernel::cast:
    case Kernel::square_sum:
    case Kernel::clip:
    case Kernel::adamw:
    case Kernel::muon_momentum:
    case Kernel::muon_update:
    case Kernel::all_gather:
    case Kernel::reduce_scatter:
    case Kernel::all_reduce:
    case Kernel::broadcast:
    case Kernel::exchange_counts:
    case Kernel::exchange_heads:
    case Kernel::send_receive:
    case Kernel::all_to_all:
    case Kernel::copy_to_host:
    case Kernel::copy_to_device:
    case Kernel::adamw_on_host:
    case Kernel::bind_rows:
    case Kernel::wait:
      break;
  }
}

void torchtitan_workspaces(const Work& work, std::vector<WorkspaceSpec>& list) {
  if (work.kernel != Kernel::cross_entropy) return;
  for (int copy = 0; copy < 2; ++copy)
    list.push_back({{work.extents[0], work.extents[1], 1}, DType::fp32});
}

void decomposed_workspaces(const Work& work, std::vector<WorkspaceSpec>& list) {
  torchtitan_workspaces(work, list);
  if (work.kernel == Kernel::cross_entropy)
    list.push_back({{work.extents[0], work.extents[1], 1}, DType::fp32});
}

void nanotron_workspaces(const Work& work, std::vector<WorkspaceSpec>& list) {
  if (work.kernel == Kernel::cross_entropy)
    list.push_back({{work.extents[0], work.extents[1], 1}, DType::fp32});
}

void no_workspaces(const Work&, std::vector<WorkspaceSpec>&) {}

void xtuner_v1_workspaces(const Work& work, std::vector<WorkspaceSpec>& list) {
  const Extent rows = work.extents[0], columns = work.extents[1];
  if (work.kernel == Kernel::cross_entropy)
    for (int copy = 0; copy < 3; ++copy) list.push_back({{rows, columns, 1}, DType::fp32});
}

}  // namespace xt

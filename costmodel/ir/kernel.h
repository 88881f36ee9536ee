#pragma once

// The closed set of things an op can be: what each kernel reads, writes and is sized by. One table
// says it all; the executor adds a function per kernel, the cost model a demand, and nothing else
// in the project knows how many there are.
//
// Legend of extents: T tokens, E model width, V vocabulary, H query heads, K key/value heads,
// D head size, S tokens of keys, reach of how many keys a query sees at most: the longest sample,
// or a window, sp ranks that share a sequence by heads, F ffn width, X experts, k experts per
// token, R routed rows, C tokens of a loss chunk, B products of a batch, calls kernels that share
// the elements of an op, beside like products that run at once: 0 stands for one. Rotary angles
// turn D columns of each head from `first` on, halves of them together or columns that are
// adjacent; head 0 stands for D. Columns go from R rows of W to Q rows of U, n of them, `from` the
// first to the first `to`: each row to as many as there are more of, or the sum of as many as there
// are fewer. Weights of experts that are `transposed` lie as [X,k,n]; experts that are `apart` have
// a product each, else one kernel has those of all; a number that a product is added to has
// sum_bytes bytes, 0 for those of the product.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xt {

enum class Kernel : std::uint8_t {
  embedding,
  embedding_backward,
  rms_norm,
  rms_norm_backward,
  layer_norm,
  layer_norm_backward,
  matmul,
  matmul_input_backward,
  matmul_input_backward_add,
  matmul_weight_backward,
  matmul_weight_backward_add,
  sum_rows,
  rope_table,
  rope,
  rope_backward,
  copy_columns,
  add_columns,
  attention,
  attention_backward,
  sinks_backward,
  batched_matmul,
  softmax,
  softmax_backward,
  dropout,
  dropout_backward,
  dropout_add,
  add,
  sum,
  swiglu,
  swiglu_backward,
  swiglu_clamped,
  swiglu_clamped_backward,
  silu,
  silu_backward,
  multiply,
  silu_multiply,
  silu_multiply_backward,
  gelu,
  gelu_backward,
  softmax_top_k,
  softmax_top_k_backward,
  sigmoid_top_k,
  sigmoid_top_k_backward,
  balance_backward,
  count_rows,
  update_router_bias,
  sort_rows,
  permute,
  permute_backward_add,
  unpermute,
  unpermute_backward,
  regroup,
  ungroup,
  grouped_matmul,
  grouped_matmul_input_backward,
  grouped_matmul_weight_backward,
  grouped_matmul_weight_backward_add,
  sum_expert_rows,
  cross_entropy,
  fill_zero,
  cast,
  square_sum,
  clip,
  adamw,
  muon_momentum,
  orthogonalise,
  muon_update,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  exchange_counts,
  exchange_heads,
  send_receive,
  all_to_all,
  copy_to_host,
  copy_to_device,
  adamw_on_host,
  bind_rows,
  wait,
};

/// What kind of machine part a kernel keeps busy; the cost model has one file per class.
enum class KernelClass : std::uint8_t {
  matrix,
  grouped_matrix,
  attention,
  memory_bound,
  collective,
  copy,
  host
};

inline constexpr std::array<std::string_view, 7> kernel_class_names = {
    "matrix", "grouped_matrix", "attention", "memory_bound", "collective", "copy", "host"};

/// One kernel's fixed roles. Outputs that are read before they are written are marked `in place`
/// by a trailing `!`, operands that may be left out by `?`; orthogonalise has one output for each
/// of some ranks. Roles and extents are separated by blanks.
struct KernelRow {
  Kernel kernel;
  std::string_view name;
  KernelClass kernel_class;
  std::string_view inputs;
  std::string_view outputs;
  std::string_view extents;
};

// clang-format off
inline constexpr std::array<KernelRow, 80> kernel_rows = {{
    {Kernel::embedding, "embedding", KernelClass::memory_bound, "tokens[T] weight[V,E]", "y[T,E]", "T E V"},
    {Kernel::embedding_backward, "embedding_backward", KernelClass::memory_bound, "dy[T,E] tokens[T]", "dweight[V,E]!", "T E V"},
    {Kernel::rms_norm, "rms_norm", KernelClass::memory_bound, "x[T,E] weight[E]", "y[T,E] rstd[T]", "T E"},
    {Kernel::rms_norm_backward, "rms_norm_backward", KernelClass::memory_bound, "dy[T,E] x[T,E] weight[E] rstd[T]", "dx[T,E] dweight[E]", "T E"},
    {Kernel::layer_norm, "layer_norm", KernelClass::memory_bound, "x[T,E] weight[E]", "y[T,E] moments[T,2]", "T E"},
    {Kernel::layer_norm_backward, "layer_norm_backward", KernelClass::memory_bound, "dy[T,E] x[T,E] weight[E] moments[T,2]", "dx[T,E] dweight[E]", "T E"},
    {Kernel::matmul, "matmul", KernelClass::matrix, "x[m,k] weight[n,k] bias[n]?", "y[m,n]", "m n k beside"},
    {Kernel::matmul_input_backward, "matmul_input_backward", KernelClass::matrix, "dy[m,n] weight[n,k]", "dx[m,k]", "m n k beside"},
    {Kernel::matmul_input_backward_add, "matmul_input_backward_add", KernelClass::matrix, "dy[m,n] weight[n,k]", "dx[m,k]!", "m n k"},
    {Kernel::matmul_weight_backward, "matmul_weight_backward", KernelClass::matrix, "dy[m,n] x[m,k]", "dweight[n,k]", "m n k"},
    {Kernel::matmul_weight_backward_add, "matmul_weight_backward_add", KernelClass::matrix, "dy[m,n] x[m,k]", "dweight[n,k]!", "m n k beside sum_bytes"},
    {Kernel::sum_rows, "sum_rows", KernelClass::memory_bound, "dy[R,n]", "dbias[n]", "R n"},
    {Kernel::rope_table, "rope_table", KernelClass::memory_bound, "positions[T]", "table[T,D]", "T D"},
    {Kernel::rope, "rope", KernelClass::memory_bound, "table[T,D]", "x[T,H,D]!", "T H D head first adjacent"},
    {Kernel::rope_backward, "rope_backward", KernelClass::memory_bound, "table[T,D]", "dx[T,H,D]!", "T H D head first adjacent"},
    {Kernel::copy_columns, "copy_columns", KernelClass::memory_bound, "x[R,W]", "y[Q,U]", "R W from Q U to n"},
    {Kernel::add_columns, "add_columns", KernelClass::memory_bound, "x[R,W]", "y[Q,U]!", "R W from Q U to n"},
    {Kernel::attention, "attention", KernelClass::attention, "q[T,H,D] k[S,K,D] v[S,K,D] boundaries sinks[H]?", "o[T,H,D] lse[T,H]", "T H K D sum_squared_lengths reach S"},
    {Kernel::attention_backward, "attention_backward", KernelClass::attention, "do[T,H,D] q[T,H,D] k[S,K,D] v[S,K,D] o[T,H,D] lse[T,H] boundaries", "dq[T,H,D] dk[S,K,D] dv[S,K,D]", "T H K D sum_squared_lengths reach S"},
    {Kernel::sinks_backward, "sinks_backward", KernelClass::memory_bound, "do[T,H,D] o[T,H,D] lse[T,H] sinks[H]", "dsinks[H]", "T H D"},
    {Kernel::batched_matmul, "batched_matmul", KernelClass::attention, "x[B,m,k] y[B,k,n]", "z[B,m,n]", "B m n k"},
    {Kernel::softmax, "softmax", KernelClass::memory_bound, "scores[B,m,n]", "weights[B,m,n]", "B m n"},
    {Kernel::softmax_backward, "softmax_backward", KernelClass::memory_bound, "weights[B,m,n]", "dweights[B,m,n]!", "B m n"},
    {Kernel::dropout, "dropout", KernelClass::memory_bound, "x", "y mask", "elements"},
    {Kernel::dropout_backward, "dropout_backward", KernelClass::memory_bound, "dy mask", "dx", "elements"},
    {Kernel::dropout_add, "dropout_add", KernelClass::memory_bound, "x branch", "y mask", "elements"},
    {Kernel::add, "add", KernelClass::memory_bound, "x", "y!", "elements"},
    {Kernel::sum, "sum", KernelClass::memory_bound, "x y", "z", "elements"},
    {Kernel::swiglu, "swiglu", KernelClass::memory_bound, "gate_up[T,2F]", "act[T,F]", "T F"},
    {Kernel::swiglu_backward, "swiglu_backward", KernelClass::memory_bound, "dact[T,F] gate_up[T,2F]", "dgate_up[T,2F]", "T F"},
    {Kernel::swiglu_clamped, "swiglu_clamped", KernelClass::memory_bound, "gate_up[T,F,2]", "act[T,F]", "T F"},
    {Kernel::swiglu_clamped_backward, "swiglu_clamped_backward", KernelClass::memory_bound, "dact[T,F] gate_up[T,F,2]", "dgate_up[T,F,2]", "T F"},
    {Kernel::silu, "silu", KernelClass::memory_bound, "x", "y", "elements"},
    {Kernel::silu_backward, "silu_backward", KernelClass::memory_bound, "dy x", "dx", "elements"},
    {Kernel::multiply, "multiply", KernelClass::memory_bound, "x y", "z", "elements"},
    {Kernel::silu_multiply, "silu_multiply", KernelClass::memory_bound, "gate[T,F] up[T,F]", "act[T,F]", "T F"},
    {Kernel::silu_multiply_backward, "silu_multiply_backward", KernelClass::memory_bound, "dact[T,F] gate[T,F] up[T,F]", "dgate[T,F] dup[T,F]", "T F"},
    {Kernel::gelu, "gelu", KernelClass::memory_bound, "x[T,F]", "act[T,F]", "T F"},
    {Kernel::gelu_backward, "gelu_backward", KernelClass::memory_bound, "dact[T,F] x[T,F]", "dx[T,F]", "T F"},
    {Kernel::softmax_top_k, "softmax_top_k", KernelClass::memory_bound, "logits[T,X]", "weights[T,k] indices[T,k]", "T X k"},
    {Kernel::softmax_top_k_backward, "softmax_top_k_backward", KernelClass::memory_bound, "dweights[T,k] logits[T,X] indices[T,k]", "dlogits[T,X]", "T X k"},
    {Kernel::sigmoid_top_k, "sigmoid_top_k", KernelClass::memory_bound, "logits[T,X] bias[X]?", "weights[T,k] indices[T,k]", "T X k"},
    {Kernel::sigmoid_top_k_backward, "sigmoid_top_k_backward", KernelClass::memory_bound, "dweights[T,k] logits[T,X] indices[T,k]", "dlogits[T,X]", "T X k"},
    {Kernel::balance_backward, "balance_backward", KernelClass::memory_bound, "logits[T,X] load[X]", "dlogits[T,X]! loss[1]!", "T X k layers counted"},
    {Kernel::count_rows, "count_rows", KernelClass::memory_bound, "indices[T,k]", "load[X]!", "T X k counted"},
    {Kernel::update_router_bias, "update_router_bias", KernelClass::memory_bound, "load[X] sum[1]", "router_bias[X]!", "X"},
    {Kernel::sort_rows, "sort_rows", KernelClass::memory_bound, "indices[T,k]", "order[T*k] counts[1,X]", "T X k"},
    {Kernel::permute, "permute", KernelClass::memory_bound, "x[T,E] order[R]", "rows[R,E]", "T E k"},
    {Kernel::permute_backward_add, "permute_backward_add", KernelClass::memory_bound, "drows[R,E] order[R]", "dx[T,E]!", "T E k"},
    {Kernel::unpermute, "unpermute", KernelClass::memory_bound, "rows[R,E] order[R] weights[T,k]", "y[T,E]", "T E k"},
    {Kernel::unpermute_backward, "unpermute_backward", KernelClass::memory_bound, "dy[T,E] rows[R,E] order[R] weights[T,k]", "drows[R,E] dweights[T,k]", "T E k"},
    {Kernel::regroup, "regroup", KernelClass::memory_bound, "rows[R,E] counts[ep,X]", "grouped[R,E]", "R E ep X"},
    {Kernel::ungroup, "ungroup", KernelClass::memory_bound, "grouped[R,E] counts[ep,X]", "rows[R,E]", "R E ep X"},
    {Kernel::grouped_matmul, "grouped_matmul", KernelClass::grouped_matrix, "x[R,k] weight[X,n,k] counts[ep,X] bias[X,n]?", "y[R,n]", "R n k X transposed apart"},
    {Kernel::grouped_matmul_input_backward, "grouped_matmul_input_backward", KernelClass::grouped_matrix, "dy[R,n] weight[X,n,k] counts[ep,X]", "dx[R,k]", "R n k X transposed apart"},
    {Kernel::grouped_matmul_weight_backward, "grouped_matmul_weight_backward", KernelClass::grouped_matrix, "dy[R,n] x[R,k] counts[ep,X]", "dweight[X,n,k]", "R n k X transposed apart"},
    {Kernel::grouped_matmul_weight_backward_add, "grouped_matmul_weight_backward_add", KernelClass::grouped_matrix, "dy[R,n] x[R,k] counts[ep,X]", "dweight[X,n,k]!", "R n k X transposed apart sum_bytes"},
    {Kernel::sum_expert_rows, "sum_expert_rows", KernelClass::memory_bound, "dy[R,n] counts[ep,X]", "dbias[X,n]", "R n X"},
    {Kernel::cross_entropy, "cross_entropy", KernelClass::memory_bound, "labels[C] valid_tokens[1]", "logits[C,V]! loss[1]!", "C V"},
    {Kernel::fill_zero, "fill_zero", KernelClass::memory_bound, "", "x", "elements"},
    {Kernel::cast, "cast", KernelClass::memory_bound, "x", "y", "n bytes_each calls"},
    {Kernel::square_sum, "square_sum", KernelClass::memory_bound, "x", "sum[1]!", "elements"},
    {Kernel::clip, "clip", KernelClass::memory_bound, "sum[1]", "x!", "elements"},
    {Kernel::adamw, "adamw", KernelClass::memory_bound, "gradient sum[1]", "parameter! exp_avg! exp_avg_sq!", "elements"},
    {Kernel::muon_momentum, "muon_momentum", KernelClass::memory_bound, "sum[1]", "momentum! gradient!", "elements"},
    {Kernel::orthogonalise, "orthogonalise", KernelClass::matrix, "", "x[m,n]!", "m n"},
    {Kernel::muon_update, "muon_update", KernelClass::memory_bound, "update sum[1]", "parameter!", "elements"},
    {Kernel::all_gather, "all_gather", KernelClass::collective, "shard", "full", "elements"},
    {Kernel::reduce_scatter, "reduce_scatter", KernelClass::collective, "full", "shard scratch?", "elements"},
    {Kernel::all_reduce, "all_reduce", KernelClass::collective, "", "x!", "elements"},
    {Kernel::broadcast, "broadcast", KernelClass::collective, "", "x!", "elements"},
    {Kernel::exchange_counts, "exchange_counts", KernelClass::collective, "counts[1,X]", "received[ep,X/ep]", "elements"},
    {Kernel::exchange_heads, "exchange_heads", KernelClass::collective, "x[T,H,D]", "y[T*sp,H/sp,D] scratch?", "elements"},
    {Kernel::send_receive, "send_receive", KernelClass::collective, "x", "y", "elements"},
    {Kernel::all_to_all, "all_to_all", KernelClass::collective, "rows[R,E] sent_counts received_counts", "received[R,E]", "sent_rows received_rows E T k"},
    {Kernel::copy_to_host, "copy_to_host", KernelClass::copy, "x", "host", "elements"},
    {Kernel::copy_to_device, "copy_to_device", KernelClass::copy, "host", "x", "elements"},
    {Kernel::adamw_on_host, "adamw_on_host", KernelClass::host, "gradient sum[1]", "parameter! exp_avg! exp_avg_sq! narrow", "elements"},
    {Kernel::bind_rows, "bind_rows", KernelClass::host, "counts[ep,X]", "", "rows_received"},
    {Kernel::wait, "wait", KernelClass::host, "", "", ""},
}};
// clang-format on

inline constexpr std::size_t n_kernels = kernel_rows.size();

/// The table row of `kernel`.
constexpr const KernelRow& row(Kernel kernel) {
  return kernel_rows[static_cast<std::size_t>(kernel)];
}

/// The spelling used in files, tables and traces.
constexpr std::string_view name(Kernel kernel) { return row(kernel).name; }

/// Whether `kernel` reads its output `i` before it writes it.
///
/// Assumes: the kernel has that many outputs
constexpr bool reads_output(Kernel kernel, std::size_t i) {
  std::string_view rest = row(kernel).outputs;
  for (; i > 0; --i) rest.remove_prefix(rest.find(' ') + 1);
  return rest.substr(0, rest.find(' ')).ends_with('!');
}

/// What kind of machine part `kernel` keeps busy.
constexpr KernelClass kernel_class(Kernel kernel) { return row(kernel).kernel_class; }

static_assert([] {
  for (std::size_t i = 0; i < n_kernels; ++i)
    if (static_cast<std::size_t>(kernel_rows[i].kernel) != i) return false;
  return n_kernels == static_cast<std::size_t>(Kernel::wait) + 1;
}());

/// The kernel spelt `text`, if there is one.
constexpr std::optional<Kernel> kernel_named(std::string_view text) {
  for (const KernelRow& candidate : kernel_rows)
    if (candidate.name == text) return candidate.kernel;
  return std::nullopt;
}

}  // namespace xt

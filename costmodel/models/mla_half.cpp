// Source: DeepSeek-V3 technical report 2024, arXiv 2412.19437, §2.1.1; Hugging Face transformers,
// modeling_deepseek_v3.py; XTuner V1 (InternLM/xtuner, b934f4620), mla.py, for values padded to the
// size of queries

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

Extent symbol(SymbolKind kind) { return Extent::of(static_cast<SymbolId>(kind)); }

}  // namespace

MlaHalf::MlaHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                 LayerValues& values)
    : write_(write),
      T_(options.tokens),
      E_(model.hidden_size),
      H_(model.num_attention_heads),
      D_(model.head_dim),
      rope_(model.qk_rope_head_dim),
      value_(model.v_head_dim),
      latent_(model.kv_lora_rank),
      adjacent_(model.turns_adjacent ? 1 : 0),
      has_query_rank_(model.q_lora_rank > 0),
      v_(values) {
  table_ = write.value({T_, rope_, 1}, ValueRole::rope_table);
  boundaries_ = write.value({T_ + 1, 1, 1}, ValueRole::boundaries);
  input_norm_ = norm("input_layernorm", E_);
  if (has_query_rank_) {
    q_a_ = linear("self_attn.q_a_proj", model.q_lora_rank, E_);
    q_norm_ = norm("self_attn.q_a_layernorm", model.q_lora_rank);
    q_b_ = linear("self_attn.q_b_proj", H_ * D_, model.q_lora_rank);
  } else {
    q_b_ = linear("self_attn.q_proj", H_ * D_, E_);
  }
  kv_a_ = linear("self_attn.kv_a_proj_with_mqa", latent_ + rope_, E_);
  kv_norm_ = norm("self_attn.kv_a_layernorm", latent_);
  kv_b_ = linear("self_attn.kv_b_proj", H_ * (D_ - rope_ + value_), latent_);
  o_ = linear("self_attn.o_proj", E_, H_ * value_);
  post_norm_ = norm("post_attention_layernorm", E_);
}

MlaHalf::Linear MlaHalf::linear(std::string name, std::int64_t rows, std::int64_t columns) {
  const GraphParameter weight = write_.parameter(
      {rows, columns, 1}, false, {{name + ".weight", {rows, columns, 1}, 2, -1, 0}});
  return {weight.value, weight.gradient, rows, columns, name.substr(name.rfind('.') + 1)};
}

MlaHalf::Norm MlaHalf::norm(std::string name, std::int64_t size) {
  const GraphParameter weight =
      write_.parameter({size, 1, 1}, false, {{name + ".weight", {size, 1, 1}, 1, -1, 0}});
  return {weight.value, weight.gradient, size, name.substr(name.rfind('.') + 1)};
}

ValueId MlaHalf::tensor(std::int64_t columns) { return write_.value({T_, columns, 1}); }

ValueId MlaHalf::apply(Linear& of, ValueId x) {
  of.x = x;
  const ValueId y = tensor(of.rows);
  write_.forward(Kernel::matmul, of.part, {T_, of.rows, of.columns}, {x, of.weight}, {y});
  return y;
}

ValueId MlaHalf::apply(Norm& of, ValueId x) {
  of.x = x;
  of.rstd = write_.value({T_, 1, 1}, DType::fp32);
  const ValueId y = tensor(of.size);
  write_.forward(Kernel::rms_norm, of.part, {T_, of.size}, {x, of.weight}, {y, of.rstd});
  return y;
}

// Adds to `dx` where that is given.
ValueId MlaHalf::undo(const Linear& of, ValueId dy, std::optional<ValueId> dx) {
  const ValueId to = dx ? *dx : tensor(of.columns);
  write_.backward(dx ? Kernel::matmul_input_backward_add : Kernel::matmul_input_backward, of.part,
                  {T_, of.rows, of.columns}, {dy, of.weight}, {to});
  write_.backward(Kernel::matmul_weight_backward, of.part, {T_, of.rows, of.columns}, {dy, of.x},
                  {of.gradient});
  return to;
}

void MlaHalf::undo(const Norm& of, ValueId dy, ValueId dx) {
  write_.backward(Kernel::rms_norm_backward, of.part, {T_, of.size}, {dy, of.x, of.weight, of.rstd},
                  {dx, of.gradient});
}

// Keys get their rotary part, which all heads share; values are padded to the size of keys.
void MlaHalf::forward() {
  const ValueId h = apply(input_norm_, v_.x);
  q_ = apply(q_b_, has_query_rank_ ? apply(q_norm_, apply(q_a_, h)) : h);
  const ValueId compressed = apply(kv_a_, h), latent = tensor(latent_);
  const std::int64_t plain = D_ - rope_, both = latent_ + rope_, rows = T_ * H_;
  write_.forward(Kernel::copy_columns, "kv_a_proj_with_mqa", {T_, both, 0, T_, latent_, 0, latent_},
                 {compressed}, {latent});
  const ValueId kv = apply(kv_b_, apply(kv_norm_, latent));
  write_.forward(Kernel::rope, "rope", {T_, H_, rope_, D_, plain, adjacent_}, {table_}, {q_});
  write_.forward(Kernel::rope, "rope", {T_, 1, rope_, both, latent_, adjacent_}, {table_},
                 {compressed});
  k_ = tensor(H_ * D_);
  padded_ = tensor(H_ * D_);
  write_.forward(Kernel::copy_columns, "keys", {rows, plain + value_, 0, rows, D_, 0, plain}, {kv},
                 {k_});
  write_.forward(Kernel::add_columns, "keys", {T_, both, latent_, rows, D_, plain, rope_},
                 {compressed}, {k_});
  write_.forward(Kernel::copy_columns, "values", {rows, plain + value_, plain, rows, D_, 0, value_},
                 {kv}, {padded_});
  attended_ = tensor(H_ * D_);
  lse_ = write_.value({T_, H_, 1}, DType::fp32);
  write_.forward(Kernel::attention, "attention",
                 {T_, H_, H_, D_, symbol(SymbolKind::sum_squared_lengths),
                  symbol(SymbolKind::longest_sample), T_},
                 {q_, k_, padded_, boundaries_}, {attended_, lse_});
  const ValueId values = tensor(H_ * value_);
  write_.forward(Kernel::copy_columns, "values", {rows, D_, 0, rows, value_, 0, value_},
                 {attended_}, {values});
  v_.attended = apply(o_, values);
  write_.forward(Kernel::add, "residual", {T_ * E_}, {v_.x}, {v_.attended});
  v_.normed = apply(post_norm_, v_.attended);
}

void MlaHalf::backward() {
  const ValueId d_attended = tensor(E_);
  undo(post_norm_, v_.dnormed, d_attended);
  write_.backward(Kernel::add, "residual", {T_ * E_}, {v_.dy}, {d_attended});
  const ValueId d_values = undo(o_, d_attended, std::nullopt), d_o = tensor(H_ * D_);
  const std::int64_t rows = T_ * H_;
  write_.backward(Kernel::copy_columns, "values", {rows, value_, 0, rows, D_, 0, value_},
                  {d_values}, {d_o});
  const ValueId d_q = tensor(H_ * D_), d_k = tensor(H_ * D_), d_v = tensor(H_ * D_);
  write_.backward(Kernel::attention_backward, "attention",
                  {T_, H_, H_, D_, symbol(SymbolKind::sum_squared_lengths),
                   symbol(SymbolKind::longest_sample), T_},
                  {d_o, q_, k_, padded_, attended_, lse_, boundaries_}, {d_q, d_k, d_v});
  write_.backward(Kernel::rope_backward, "rope", {T_, H_, rope_, D_, D_ - rope_, adjacent_},
                  {table_}, {d_q});
  v_.dnormed = backward_of_keys(d_k, d_v);
  backward_of_queries(d_q);
  const ValueId dx = write_.value({T_, E_, 1}, ValueRole::input_gradient);
  undo(input_norm_, v_.dnormed, dx);
  write_.backward(Kernel::add, "residual", {T_ * E_}, {d_attended}, {dx});
}

// Adds to the gradient of the layer's normed input what comes through queries.
void MlaHalf::backward_of_queries(ValueId d_q) {
  if (!has_query_rank_) {
    undo(q_b_, d_q, v_.dnormed);
    return;
  }
  const ValueId d_q_a = tensor(q_norm_.size);
  undo(q_norm_, undo(q_b_, d_q, std::nullopt), d_q_a);
  undo(q_a_, d_q_a, v_.dnormed);
}

// The gradient of the layer's normed input that comes through keys and values.
ValueId MlaHalf::backward_of_keys(ValueId d_k, ValueId d_v) {
  const ValueId d_kv = tensor(kv_b_.rows), d_compressed = tensor(latent_ + rope_);
  const std::int64_t plain = D_ - rope_, both = latent_ + rope_, rows = T_ * H_;
  write_.backward(Kernel::copy_columns, "keys", {rows, D_, 0, rows, plain + value_, 0, plain},
                  {d_k}, {d_kv});
  write_.backward(Kernel::add_columns, "values", {rows, D_, 0, rows, plain + value_, plain, value_},
                  {d_v}, {d_kv});
  write_.backward(Kernel::copy_columns, "keys", {rows, D_, plain, T_, both, latent_, rope_}, {d_k},
                  {d_compressed});
  write_.backward(Kernel::rope_backward, "rope", {T_, 1, rope_, both, latent_, adjacent_}, {table_},
                  {d_compressed});
  const ValueId d_latent = tensor(latent_);
  undo(kv_norm_, undo(kv_b_, d_kv, std::nullopt), d_latent);
  write_.backward(Kernel::add_columns, "kv_a_proj_with_mqa", {T_, latent_, 0, T_, both, 0, latent_},
                  {d_latent}, {d_compressed});
  return undo(kv_a_, d_compressed, std::nullopt);
}

}  // namespace xt

// Source: Hugging Face transformers, modeling_qwen3.py, modeling_qwen2.py for biases,
// modeling_gpt_oss.py for sinks, modeling_olmo3.py for norms behind; Ainslie et al. 2023, "GQA",
// arXiv 2305.13245

#include <fmt/format.h>

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

Piece vector_piece(std::string name, std::int64_t n) {
  return {std::move(name), {n, 1, 1}, 1, -1, 0};
}

}  // namespace

AttentionHalf::AttentionHalf(BlockWriter& write, const Architecture& model,
                             const GraphOptions& options, LayerValues& values)
    : write_(write),
      ranks_(write, options, model.hidden_size),
      T_(options.tokens),
      R_(options.residual_tokens()),
      E_(model.hidden_size),
      H_(ranks_.part_of(model.num_attention_heads)),
      K_(ranks_.part_of(model.num_key_value_heads)),
      D_(model.head_dim),
      sp_(options.sequence_parallel),
      cp_(options.context_parallel),
      exchange_(options.context_exchange),
      dtype_(options.dtype),
      width_(width(options.dtype)),
      has_rope_(model.position == Position::rotary),
      repeats_keys_((options.repeats_key_heads || !options.fuses_attention) && sp_ == 1 && K_ < H_),
      model_(model),
      options_(options),
      norm_(norm_of(model)),
      norm_behind_(write, model, options, "post_attention_layernorm.weight"),
      residual_(write, model, options),
      v_(values) {
  if (has_rope_) table_ = write.value({T_, model.turned_size(), 1}, ValueRole::rope_table);
  boundaries_ = write.value({key_tokens() + 1, 1, 1}, ValueRole::boundaries);
  if (!model.has_norms_behind) {
    const GraphParameter input_norm = norm_parameter(write, model, "input_layernorm");
    input_norm_ = input_norm.value;
    input_norm_gradient_ = input_norm.gradient;
  }
  q_ = projection("q", H_, model.has_qk_norm);
  k_ = projection("k", K_, model.has_qk_norm);
  value_ = projection("v", K_, false);
  const GraphParameter wo = write.part_of_parameter(
      {E_, H_ * D_, 1}, {{"self_attn.o_proj.weight", {E_, H_ * D_, 1}, 2, -1, 0}});
  wo_ = wo.value;
  wo_gradient_ = wo.gradient;
  if (model.has_qkv_bias && model.has_bias_everywhere)
    wo_bias_ = bias_parameter(write, "self_attn.o_proj.bias", E_, false);
  if (model.has_sinks) sinks_ = bias_parameter(write, "self_attn.sinks", H_, true);
  if (model.has_norms_behind) return;
  const GraphParameter post_norm = norm_parameter(write, model, "post_attention_layernorm");
  post_norm_ = post_norm.value;
  post_norm_gradient_ = post_norm.gradient;
}

AttentionHalf::Projection AttentionHalf::projection(std::string_view letter, std::int64_t heads,
                                                    bool has_norm) {
  Projection p{};
  p.heads = heads;
  p.has_norm = has_norm;
  const GraphParameter weight = write_.part_of_parameter(
      {heads * D_, E_, 1},
      {{fmt::format("self_attn.{}_proj.weight", letter), {heads * D_, E_, 1}, 2, -1, 0}});
  p.weight = weight.value;
  p.gradient = weight.gradient;
  if (model_.has_qkv_bias)
    p.bias =
        bias_parameter(write_, fmt::format("self_attn.{}_proj.bias", letter), heads * D_, true);
  p.raw = write_.value({T_, heads, D_});
  p.d_raw = write_.value({T_, heads, D_});
  if (!has_norm) return p;
  p.norm_size = model_.has_wide_qk_norm ? heads * D_ : D_;
  const GraphParameter norm = write_.parameter(
      {p.norm_size, 1, 1}, false,
      {vector_piece(fmt::format("self_attn.{}_norm.weight", letter), p.norm_size)});
  p.norm = norm.value;
  p.norm_gradient = norm.gradient;
  p.normed = write_.value({T_, heads, D_});
  p.rstd = write_.value({norm_rows(p), 1, 1}, DType::fp32);
  p.d_normed = write_.value({T_, heads, D_});
  return p;
}

void AttentionHalf::project(const Projection& p, std::string_view part) {
  write_product(write_, part, {T_, p.heads * D_, E_}, seen_h_, p.weight, p.bias, p.raw);
  if (p.has_norm)
    write_.forward(Kernel::rms_norm, part, {norm_rows(p), p.norm_size}, {p.raw, p.norm},
                   {p.normed, p.rstd});
}

// The input of the projections.
void AttentionHalf::norm_input() {
  h_ = v_.x;
  if (model_.has_norms_behind) return;
  input_rstd_ = write_.value({R_, norm_.moments, 1}, DType::fp32);
  h_ = write_.value({R_, E_, 1});
  write_.forward(norm_.forward, "input_norm", {R_, E_}, {v_.x, input_norm_}, {h_, input_rstd_});
}

// The input of the ffn.
void AttentionHalf::norm_output() {
  v_.normed = v_.attended;
  if (model_.has_norms_behind) return;
  post_rstd_ = write_.value({R_, norm_.moments, 1}, DType::fp32);
  v_.normed = write_.value({R_, E_, 1});
  write_.forward(norm_.forward, "post_norm", {R_, E_}, {v_.attended, post_norm_},
                 {v_.normed, post_rstd_});
}

void AttentionHalf::forward() {
  norm_input();
  o_ = write_.value({T_, H_, D_});
  if (options_.fuses_attention) lse_ = write_.value({all_tokens(), query_heads(), 1}, DType::fp32);
  v_.attended = write_.value({R_, E_, 1});
  seen_h_ = ranks_.whole(Pass::forward, "q_proj", h_);
  project(q_, "q_proj");
  project(k_, "k_proj");
  project(value_, "v_proj");
  if (has_rope_) {
    const std::int64_t turned = model_.turned_size(), head = turned == D_ ? 0 : D_;
    write_.forward(Kernel::rope, "rope", {T_, H_, turned, head}, {table_}, {normalised(q_)});
    write_.forward(Kernel::rope, "rope", {T_, K_, turned, head}, {table_}, {normalised(k_)});
  }
  attend();
  const ValueId branch = residual_.branch(v_.attended);
  const ValueId sum = norm_behind_.input(branch);
  const ValueId partial = ranks_.partial(sum);
  write_product(write_, "o_proj", {T_, E_, H_ * D_}, o_, wo_, wo_bias_, partial);
  ranks_.add_up(Pass::forward, "o_proj", partial, sum);
  norm_behind_.forward("post_norm", branch);
  residual_.forward(v_.x, branch, v_.attended);
  norm_output();
}

void AttentionHalf::input_backward(const Projection& p, std::string_view part, ValueId dh,
                                   bool is_first) {
  if (p.has_norm)
    write_.backward(Kernel::rms_norm_backward, part, {norm_rows(p), p.norm_size},
                    {p.d_normed, p.raw, p.norm, p.rstd}, {p.d_raw, p.norm_gradient});
  write_.backward(is_first ? Kernel::matmul_input_backward : Kernel::matmul_input_backward_add,
                  part, {T_, p.heads * D_, E_}, {p.d_raw, p.weight}, {dh});
}

void AttentionHalf::weight_backward(const Projection& p, std::string_view part, ValueId h) {
  write_.backward(Kernel::matmul_weight_backward, part, {T_, p.heads * D_, E_}, {p.d_raw, h},
                  {p.gradient});
  if (p.bias) write_bias_backward(write_, part, T_, p.heads * D_, p.d_raw, p.bias->gradient);
}

// Where exchanges overlap, the input is gathered again behind the products for its gradient, which
// is summed behind those for the weights'.
void AttentionHalf::project_backward() {
  struct Part {
    const Projection& of;
    std::string_view name;
  };
  const std::array<Part, 3> parts = {{{q_, "q_proj"}, {k_, "k_proj"}, {value_, "v_proj"}}};
  const ValueId h = ranks_.whole_again("q_proj", h_, seen_h_);
  const ValueId partial = ranks_.partial(v_.dnormed);
  for (const Part& part : parts) {
    input_backward(part.of, part.name, partial, &part == &parts.front());
    if (!ranks_.overlaps()) weight_backward(part.of, part.name, h);
  }
  ranks_.add_up(Pass::backward, "q_proj", partial, v_.dnormed);
  if (!ranks_.overlaps()) return;
  for (const Part& part : parts) weight_backward(part.of, part.name, h);
}

// The gradient of the branch's sum with the layer's input: what came through the ffn and beside it.
ValueId AttentionHalf::output_backward() {
  ValueId d_attended = v_.dnormed;
  if (!model_.has_norms_behind) {
    d_attended = write_.value({R_, E_, 1});
    write_.backward(norm_.backward, "post_norm", {R_, E_},
                    {v_.dnormed, v_.attended, post_norm_, post_rstd_},
                    {d_attended, post_norm_gradient_});
  }
  write_.backward(Kernel::add, "residual", {R_ * E_}, {v_.dy}, {d_attended});
  return d_attended;
}

// On entry v_.dnormed is the gradient of the ffn's input; the layer's own gradient is left in the
// value with role input_gradient.
void AttentionHalf::backward() {
  const ValueId d_attended = output_backward();
  const ValueId d_sum = norm_behind_.backward("post_norm", residual_.backward(d_attended));
  const ValueId d_o = write_.value({T_, H_, D_});
  const ValueId d_seen = ranks_.whole(Pass::backward, "o_proj", d_sum);
  write_.backward(Kernel::matmul_input_backward, "o_proj", {T_, E_, H_ * D_}, {d_seen, wo_}, {d_o});
  write_.backward(Kernel::matmul_weight_backward, "o_proj", {T_, E_, H_ * D_}, {d_seen, o_},
                  {wo_gradient_});
  if (wo_bias_) write_bias_backward(write_, "o_proj", T_, E_, d_seen, wo_bias_->gradient);
  attend_backward(d_o);
  if (sinks_)
    write_.backward(Kernel::sinks_backward, "attention", {T_, H_, D_},
                    {d_o, o_, lse_, sinks_->value}, {sinks_->gradient});
  if (has_rope_) {
    const std::int64_t turned = model_.turned_size(), head = turned == D_ ? 0 : D_;
    write_.backward(Kernel::rope_backward, "rope", {T_, H_, turned, head}, {table_},
                    {gradient(q_)});
    write_.backward(Kernel::rope_backward, "rope", {T_, K_, turned, head}, {table_},
                    {gradient(k_)});
  }
  const auto dx = [&] { return write_.value({R_, E_, 1}, ValueRole::input_gradient); };
  v_.dnormed = model_.has_norms_behind ? dx() : write_.value({R_, E_, 1});
  project_backward();
  const ValueId d_input = model_.has_norms_behind ? v_.dnormed : dx();
  if (!model_.has_norms_behind)
    write_.backward(norm_.backward, "input_norm", {R_, E_},
                    {v_.dnormed, v_.x, input_norm_, input_rstd_}, {d_input, input_norm_gradient_});
  write_.backward(Kernel::add, "residual", {R_ * E_}, {d_attended}, {d_input});
}

}  // namespace xt

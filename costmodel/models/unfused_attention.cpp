// Attention whose scores are tensors: products of queries with keys, a softmax, dropout where the
// model trains with it, and products with values.
//
// Source: Megatron-LM, megatron/model/transformer.py, CoreAttention, and model/fused_softmax.py;
// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", arXiv
// 2205.05198, section 4.1, for what is kept

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

constexpr std::string_view part = "attention";

}  // namespace

// Products of every sample with every head.
std::int64_t AttentionHalf::batch() const {
  return all_tokens() / options_.sample_length * query_heads();
}

ValueId AttentionHalf::scores() {
  return write_.value({batch(), options_.sample_length, options_.sample_length});
}

void AttentionHalf::batched(Pass pass, const std::array<std::int64_t, 3>& shape, ValueId x,
                            ValueId y, ValueId z) {
  write_.in(pass, Kernel::batched_matmul, part, {batch(), shape[0], shape[1], shape[2]}, {x, y},
            {z});
}

// Source: Megatron-LM, megatron/model/fused_softmax.py: a warp per row, four rows a block
bool AttentionHalf::has_fused_softmax() const {
  constexpr std::int64_t warps = 4, shortest = 17;
  const std::int64_t s = options_.sample_length;
  return s >= shortest && s <= options_.longest_fused_softmax && s % warps == 0 &&
         batch() % warps == 0 && dtype_ != DType::fp32;
}

// One kernel that moves `bytes` for every score.
void AttentionHalf::scores_pass(Pass pass, std::int64_t bytes,
                                std::initializer_list<ValueId> inputs, ValueId to) {
  const std::int64_t s = options_.sample_length;
  write_.in(pass, Kernel::cast, part, {batch() * s * s, bytes}, inputs, {to});
}

// A bias is one more tensor of scores, which is read. Its table, one for all layers, is not
// counted. Where no fused kernel fits, scores are widened to fp32, masked in place, and narrowed
// again.
void AttentionHalf::softmax(ValueId products) {
  const std::int64_t s = options_.sample_length, wide = width(DType::fp32);
  weights_ = scores();
  // Source: Hugging Face, modeling_baichuan.py; ModelLink, core attention, baddbmm
  if (model_.position == Position::biased) scores_pass(Pass::forward, width_, {products}, products);
  if (has_fused_softmax()) {
    write_.forward(Kernel::softmax, part, {batch(), s, s}, {products}, {weights_});
    return;
  }
  const auto in_fp32 = [&] { return write_.value({batch(), s, s}, DType::fp32); };
  const ValueId masked = in_fp32();
  wide_weights_ = in_fp32();
  scores_pass(Pass::forward, width_ + wide, {products}, masked);
  scores_pass(Pass::forward, 2 * wide, {masked}, masked);
  scores_pass(Pass::forward, 2 * wide, {masked}, wide_weights_);
  scores_pass(Pass::forward, wide + width_, {wide_weights_}, weights_);
}

// Leaves the gradient of the scores in the place of that of the weights.
void AttentionHalf::softmax_backward(ValueId d_weights) {
  const std::int64_t s = options_.sample_length, wide = width(DType::fp32);
  if (has_fused_softmax()) {
    write_.backward(Kernel::softmax_backward, part, {batch(), s, s}, {weights_}, {d_weights});
    return;
  }
  const ValueId d_wide = write_.value({batch(), s, s}, DType::fp32);
  const ValueId d_masked = write_.value({batch(), s, s}, DType::fp32);
  scores_pass(Pass::backward, width_ + wide, {d_weights}, d_wide);
  scores_pass(Pass::backward, 3 * wide, {d_wide, wide_weights_}, d_masked);
  scores_pass(Pass::backward, 2 * wide, {d_masked}, d_masked);
  scores_pass(Pass::backward, wide + width_, {d_masked}, d_weights);
}

void AttentionHalf::attend_unfused(const Operands& seen, ValueId o) {
  const std::int64_t s = options_.sample_length;
  const ValueId products = scores();
  batched(Pass::forward, {s, s, D_}, seen.q, seen.k, products);
  softmax(products);
  dropped_ = weights_;
  if (model_.has_attention_dropout) {
    dropped_ = scores();
    mask_ = write_.value({batch(), s, s}, DType::uint8);
    write_.forward(Kernel::dropout, part, {batch() * s * s}, {weights_}, {dropped_, mask_});
  }
  // What is written by heads is copied into the order of tokens.
  const ValueId by_heads = write_.value({batch(), s, D_});
  batched(Pass::forward, {s, D_, s}, dropped_, seen.v, by_heads);
  write_.forward(Kernel::cast, part, {batch() * s * D_, 2 * width_}, {by_heads}, {o});
}

void AttentionHalf::attend_unfused_backward(ValueId d_o, const Operands& seen, const Operands& d) {
  const std::int64_t s = options_.sample_length;
  ValueId d_weights = scores();
  batched(Pass::backward, {s, s, D_}, d_o, seen.v, d_weights);
  batched(Pass::backward, {s, D_, s}, dropped_, d_o, d.v);
  if (model_.has_attention_dropout) {
    const ValueId d_dropped = d_weights;
    d_weights = scores();
    write_.backward(Kernel::dropout_backward, part, {batch() * s * s}, {d_dropped, mask_},
                    {d_weights});
  }
  softmax_backward(d_weights);
  batched(Pass::backward, {s, D_, s}, d_weights, seen.k, d.q);
  batched(Pass::backward, {s, D_, s}, d_weights, seen.q, d.k);
  // Gradients of the three parts of one projection are joined.
  for (const ValueId d_part : {d.q, d.k, d.v})
    write_.backward(Kernel::cast, part, {batch() * s * D_, 2 * width_}, {d_part}, {d_part});
}

}  // namespace xt

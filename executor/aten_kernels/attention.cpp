// Causal attention within each document of a pack, by blocks of query rows: a block sees no key
// farther back than its reach, so that the work is linear in the length of the pack and nobody has
// to know where documents begin. Sources are those of executor/kernels.

#include <algorithm>

#include "executor/aten_kernels/attention_parts.h"
#include "executor/aten_kernels/groups.h"

namespace xt {
namespace {

constexpr std::int64_t block_rows = 256;

/// A block of query rows and the keys that any of them sees.
struct Block {
  std::int64_t first, rows, first_key, keys;
};

/// Calls `function(block)` over all query rows.
template <typename Function>
void for_blocks(const AttentionExtents& of, const Function& function) {
  for (std::int64_t first = 0; first < of.T; first += block_rows) {
    const std::int64_t rows = std::min(block_rows, of.T - first);
    const std::int64_t first_key = std::max<std::int64_t>(0, first + 1 - of.reach);
    function(Block{first, rows, first_key, first + rows - first_key});
  }
}

/// Which key a query does not see: of another document, behind it, or beyond its reach.
class Mask {
 public:
  Mask(const at::Tensor& boundaries, const AttentionExtents& of)
      : positions_(at::arange(of.T, beside(boundaries, at::kInt))),
        documents_(at::searchsorted(boundaries, positions_, /*out_int32=*/true, /*right=*/true)),
        reach_(of.reach) {}

  at::Tensor operator()(const Block& of) const {
    const at::Tensor query = positions_.narrow(0, of.first, of.rows).unsqueeze(1);
    const at::Tensor key = positions_.narrow(0, of.first_key, of.keys);
    const at::Tensor is_other = documents_.narrow(0, of.first, of.rows)
                                    .unsqueeze(1)
                                    .ne(documents_.narrow(0, of.first_key, of.keys));
    return is_other.logical_or_(key > query).logical_or_(key <= query - reach_);
  }

 private:
  at::Tensor positions_, documents_;
  std::int64_t reach_;
};

// Rows of a block in fp32, heads that share a key head below each other: [K,G·rows,…].
at::Tensor by_key_head(const at::Tensor& queries, const Block& block, const AttentionExtents& of) {
  return wide(queries.narrow(0, block.first, block.rows))
      .view({block.rows, of.K, of.H / of.K, -1})
      .permute({1, 2, 0, 3})
      .reshape({of.K, of.H / of.K * block.rows, -1});
}

// Back to [rows,H,…].
at::Tensor by_token(const at::Tensor& rows, const Block& block, const AttentionExtents& of) {
  return rows.view({of.K, of.H / of.K, block.rows, -1})
      .permute({2, 0, 1, 3})
      .reshape({block.rows, of.H, -1});
}

at::Tensor keys_of(const at::Tensor& keys, const Block& block) {
  return wide(keys.narrow(0, block.first_key, block.keys)).transpose(0, 1);
}

// Scaled scores [K,G·rows,keys], −∞ where the query does not see the key.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& is_hidden,
                     const AttentionExtents& of) {
  const at::Tensor scores = q.bmm(k.transpose(1, 2)).mul_(of.scale);
  scores.view({of.K, of.H / of.K, is_hidden.size(0), is_hidden.size(1)})
      .masked_fill_(is_hidden, -std::numeric_limits<double>::infinity());
  return scores;
}

void attend(const KernelCall& call, const AttentionExtents& of, const at::Tensor& o,
            const at::Tensor& lse) {
  const at::Tensor q = in(call, 0, {of.T, of.H, of.D}), k = in(call, 1, {of.T, of.K, of.D}),
                   v = in(call, 2, {of.T, of.K, of.D});
  const Mask mask(in(call, 3, {of.T + 1}), of);
  for_blocks(of, [&](const Block& block) {
    const at::Tensor scores =
        scores_of(by_key_head(q, block, of), keys_of(k, block), mask(block), of);
    const at::Tensor sums = scores.logsumexp(2, /*keepdim=*/true);
    const at::Tensor mean = scores.sub(sums).exp_().bmm(keys_of(v, block));
    o.narrow(0, block.first, block.rows).copy_(by_token(mean, block, of));
    lse.narrow(0, block.first, block.rows).copy_(by_token(sums, block, of).squeeze(2));
  });
}

// A sink is one more score, which takes its share of the weights and gives nothing.
void add_sinks(const at::Tensor& sinks, const at::Tensor& o, const at::Tensor& lse) {
  const at::Tensor all = at::logaddexp(lse, wide(sinks));
  o.copy_(wide(o).mul_((lse - all).exp_().unsqueeze(2)));
  lse.copy_(all);
}

void attention(const KernelCall& call) {
  const AttentionExtents of(call);
  const at::Tensor o = out(call, 0, {of.T, of.H, of.D}), lse = out(call, 1, {of.T, of.H});
  if (fits_flash(call, of)) {
    const FlashForward result = flash_forward(call, of);
    o.copy_(result.o);
    lse.copy_(result.lse);
  } else {
    attend(call, of, o, lse);
  }
  if (call.inputs.size() > 4) add_sinks(in(call, 4, {of.H}), o, lse);
}

// From p = exp(s − lse) and dp = dO·Vᵀ: ds = p · (dp − dO·O) · scale.
void differentiate(const KernelCall& call, const AttentionExtents& of, const at::Tensor& dk,
                   const at::Tensor& dv) {
  const at::Tensor d_o = in(call, 0, {of.T, of.H, of.D}), q = in(call, 1, {of.T, of.H, of.D}),
                   k = in(call, 2, {of.T, of.K, of.D}), v = in(call, 3, {of.T, of.K, of.D}),
                   o = in(call, 4, {of.T, of.H, of.D}), lse = in(call, 5, {of.T, of.H, 1});
  const at::Tensor dq = out(call, 0, {of.T, of.H, of.D});
  const Mask mask(in(call, 6, {of.T + 1}), of);
  for_blocks(of, [&](const Block& block) {
    const at::Tensor q_block = by_key_head(q, block, of), d_block = by_key_head(d_o, block, of);
    const at::Tensor keys = keys_of(k, block);
    const at::Tensor p =
        scores_of(q_block, keys, mask(block), of).sub_(by_key_head(lse, block, of)).exp_();
    const at::Tensor along = (d_block * by_key_head(o, block, of)).sum(2, /*keepdim=*/true);
    const at::Tensor ds =
        d_block.bmm(keys_of(v, block).transpose(1, 2)).sub_(along).mul_(p).mul_(of.scale);
    dq.narrow(0, block.first, block.rows).copy_(by_token(ds.bmm(keys), block, of));
    dk.narrow(0, block.first_key, block.keys).add_(ds.mT().bmm(q_block).transpose(0, 1));
    dv.narrow(0, block.first_key, block.keys).add_(p.mT().bmm(d_block).transpose(0, 1));
  });
}

void attention_backward(const KernelCall& call) {
  const AttentionExtents of(call);
  if (fits_flash(call, of)) return flash_backward(call, of);
  const at::Tensor dk = at::zeros({of.T, of.K, of.D}, beside(call.outputs[1])),
                   dv = at::zeros_like(dk);
  differentiate(call, of, dk, dv);
  out(call, 1, {of.T, of.K, of.D}).copy_(dk);
  out(call, 2, {of.T, of.K, of.D}).copy_(dv);
}

// The probability of nothing against what comes of it: −Σ exp(sink − lse) · (dO·O), over tokens.
void sinks_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), H = call.extent(1), D = call.extent(2);
  const at::Tensor along = (wide(in(call, 0, {T, H, D})) * in(call, 1, {T, H, D})).sum(2);
  const at::Tensor probability = (wide(in(call, 3, {H})) - in(call, 2, {T, H})).exp_();
  out(call, 0, {H}).copy_((probability * along).sum(0).neg_());
}

}  // namespace

void enter_aten_attention(KernelTable& table) {
  entry(table, Kernel::attention) = attention;
  entry(table, Kernel::attention_backward) = attention_backward;
  entry(table, Kernel::sinks_backward) = sinks_backward;
}

}  // namespace xt

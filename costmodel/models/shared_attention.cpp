// Attention of a pack that several ranks share: by heads, by tokens, or not at all.
//
// Source: Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv 2309.14509, for heads; Liu et al. 2023,
// "Ring Attention", arXiv 2310.01889, and PyTorch, distributed/tensor/experimental/_attention.py,
// for tokens around a ring; Llama Team 2024, "The Llama 3 Herd of Models", arXiv 2407.21783,
// section 3.3.2, for tokens with all keys gathered

#include "costmodel/models/blocks.h"

namespace xt {
namespace {

constexpr std::string_view part = "attention";

const OpPlace over_sequence{Lane::expert, Group::sequence};
const OpPlace over_context{Lane::expert, Group::context};

Extent symbol(SymbolKind kind) { return Extent::of(static_cast<SymbolId>(kind)); }

}  // namespace

Extent AttentionHalf::reach() const {
  if (model_.sliding_window > 0) return model_.sliding_window;
  return symbol(SymbolKind::longest_sample);
}

void AttentionHalf::attention(const Operands& seen, ValueId o, ValueId lse, std::int64_t keys) {
  const std::initializer_list<Extent> extents = {
      all_tokens(), query_heads(), key_heads(), D_, symbol(SymbolKind::sum_squared_lengths),
      reach(),      keys};
  if (sinks_) {
    write_.forward(Kernel::attention, part, extents,
                   {seen.q, seen.k, seen.v, boundaries_, sinks_->value}, {o, lse});
  } else {
    write_.forward(Kernel::attention, part, extents, {seen.q, seen.k, seen.v, boundaries_},
                   {o, lse});
  }
}

void AttentionHalf::attention_backward(ValueId d_o, const Operands& seen, const Operands& d,
                                       std::int64_t keys) {
  write_.backward(Kernel::attention_backward, part,
                  {all_tokens(), query_heads(), key_heads(), D_,
                   symbol(SymbolKind::sum_squared_lengths), reach(), keys},
                  {d_o, seen.q, seen.k, seen.v, seen_o_, lse_, boundaries_}, {d.q, d.k, d.v});
}

// From tokens of all heads to heads of all tokens, or back.
void AttentionHalf::exchange(Pass pass, std::int64_t heads, ValueId from, ValueId to) {
  const std::int64_t n = T_ * heads * D_;
  if (options_.exchanges_through_scratch) {
    write_.in(pass, Kernel::exchange_heads, part, {n}, {from}, {to, write_.value({n, 1, 1})},
              over_sequence);
  } else {
    write_.in(pass, Kernel::exchange_heads, part, {n}, {from}, {to}, over_sequence);
  }
}

// Fewer key heads than ranks are repeated before they are exchanged.
ValueId AttentionHalf::gathered_heads(ValueId x, std::int64_t heads) {
  const std::int64_t sent_heads = std::max(heads, sp_);
  ValueId sent = x;
  if (sent_heads > heads) {
    sent = write_.value({T_, sent_heads, D_});
    write_.forward(Kernel::cast, part, {T_ * sent_heads * D_, 2 * width_}, {x}, {sent});
  }
  const ValueId received = write_.value({all_tokens(), sent_heads / sp_, D_});
  exchange(Pass::forward, sent_heads, sent, received);
  return received;
}

AttentionHalf::Operands AttentionHalf::gathered() {
  if (repeats_keys_) return {normalised(q_), repeated(normalised(k_)), repeated(value_.raw)};
  if (sp_ == 1) return {normalised(q_), normalised(k_), value_.raw};
  const ValueId q = gathered_heads(normalised(q_), H_);
  const ValueId k = gathered_heads(normalised(k_), K_);
  return {q, k, gathered_heads(value_.raw, K_)};
}

// One key head per query head, for kernels that know no groups of heads.
ValueId AttentionHalf::repeated(ValueId x) {
  const ValueId all = write_.value({T_, H_, D_});
  write_.forward(Kernel::cast, part, {T_ * H_ * D_, 2 * width_}, {x}, {all});
  return all;
}

// The gradients of repeated heads are summed.
void AttentionHalf::scatter_heads(ValueId from, ValueId to, std::int64_t heads) {
  const std::int64_t sent_heads = std::max(heads, sp_);
  const ValueId received = sent_heads > heads ? write_.value({T_, sent_heads, D_}) : to;
  exchange(Pass::backward, sent_heads, from, received);
  if (sent_heads > heads)
    write_.backward(Kernel::cast, part, {T_ * sent_heads * D_, 2 * width_}, {received}, {to});
}

// The tensors that a part of attention writes gradients to, for keys of so many tokens.
AttentionHalf::Operands AttentionHalf::gradients_of(std::int64_t keys) {
  const ValueId d_q = write_.value({all_tokens(), query_heads(), D_});
  const ValueId d_k = write_.value({keys, key_heads(), D_});
  return {d_q, d_k, write_.value({keys, key_heads(), D_})};
}

void AttentionHalf::attend() {
  seen_ = gathered();
  seen_o_ = sp_ == 1 ? o_ : write_.value({all_tokens(), query_heads(), D_});
  if (!options_.fuses_attention) {
    attend_unfused(seen_, seen_o_);
  } else if (cp_ == 1) {
    attention(seen_, seen_o_, lse_, all_tokens());
  } else if (exchange_ == ContextExchange::ring) {
    attend_around_ring();
  } else {
    attention(with_all_keys(Pass::forward), seen_o_, lse_, key_tokens());
  }
  if (sp_ > 1) exchange(Pass::forward, H_, seen_o_, o_);
}

void AttentionHalf::attend_backward(ValueId d_o) {
  Operands d = {gradient(q_), gradient(k_), value_.d_raw};
  ValueId seen_d_o = d_o;
  if (sp_ > 1) {
    seen_d_o = write_.value({all_tokens(), query_heads(), D_});
    exchange(Pass::backward, H_, d_o, seen_d_o);
    d = gradients_of(all_tokens());
  } else if (repeats_keys_) {
    d.k = write_.value({T_, H_, D_});
    d.v = write_.value({T_, H_, D_});
  }
  if (!options_.fuses_attention) {
    attend_unfused_backward(seen_d_o, seen_, d);
  } else if (cp_ == 1) {
    attention_backward(seen_d_o, seen_, d, all_tokens());
  } else if (exchange_ == ContextExchange::ring) {
    attend_around_ring_backward(seen_d_o, d);
  } else {
    attend_to_all_keys_backward(seen_d_o, d);
  }
  if (repeats_keys_) {
    write_.backward(Kernel::cast, part, {T_ * H_ * D_, 2 * width_}, {d.k}, {gradient(k_)});
    write_.backward(Kernel::cast, part, {T_ * H_ * D_, 2 * width_}, {d.v}, {value_.d_raw});
  }
  if (sp_ == 1) return;
  scatter_heads(d.q, gradient(q_), H_);
  scatter_heads(d.k, gradient(k_), K_);
  scatter_heads(d.v, value_.d_raw, K_);
}

// Keys and values of the whole pack beside this rank's queries.
AttentionHalf::Operands AttentionHalf::with_all_keys(Pass pass) {
  const std::int64_t n = key_tokens() * key_heads() * D_;
  const ValueId k = write_.value({key_tokens(), key_heads(), D_});
  const ValueId v = write_.value({key_tokens(), key_heads(), D_});
  write_.in(pass, Kernel::all_gather, part, {n}, {seen_.k}, {k}, over_context);
  write_.in(pass, Kernel::all_gather, part, {n}, {seen_.v}, {v}, over_context);
  return {seen_.q, k, v};
}

// Gathered keys and values were dropped after the forward pass; their gradients are summed over the
// ranks, each of which keeps its own tokens'.
void AttentionHalf::attend_to_all_keys_backward(ValueId d_o, const Operands& d) {
  const Operands seen = with_all_keys(Pass::backward);
  const ValueId d_k = write_.value({key_tokens(), key_heads(), D_});
  const ValueId d_v = write_.value({key_tokens(), key_heads(), D_});
  attention_backward(d_o, seen, {d.q, d_k, d_v}, key_tokens());
  const std::int64_t n = key_tokens() * key_heads() * D_;
  write_.backward(Kernel::reduce_scatter, part, {n}, {d_k}, {d.k}, over_context);
  write_.backward(Kernel::reduce_scatter, part, {n}, {d_v}, {d.v}, over_context);
}

// This rank's keys and values in one tensor, to be sent.
ValueId AttentionHalf::packed_pair(Pass pass) {
  const ValueId pair = write_.value({2 * all_tokens(), key_heads(), D_});
  write_.in(pass, Kernel::cast, part, {pair_elements(), 2 * width_}, {seen_.k, seen_.v}, {pair});
  return pair;
}

// What the neighbour sends while this rank sends it `pair`.
ValueId AttentionHalf::passed_on(Pass pass, ValueId pair, DType dtype) {
  const ValueId received = write_.value({2 * all_tokens(), key_heads(), D_}, dtype);
  write_.in(pass, Kernel::send_receive, part, {pair_elements()}, {pair}, {received},
            {Lane::expert, Group::context, dtype});
  return received;
}

// Each step attends to the keys of one rank while those of the next one arrive, and merges what it
// finds in fp32.
//
// Assumes: steps work alike: after the first one, half the queries see all keys or all see half
void AttentionHalf::attend_around_ring() {
  const std::int64_t n = all_tokens() * query_heads() * D_, narrow_and_wide = width_ + 4;
  const ValueId sum = write_.value({all_tokens(), query_heads(), D_}, DType::fp32);
  ValueId pair = packed_pair(Pass::forward);
  Operands seen = seen_;
  for (std::int64_t step = 0; step < cp_; ++step) {
    if (step + 1 < cp_) pair = passed_on(Pass::forward, pair, dtype_);
    const ValueId o = write_.value({all_tokens(), query_heads(), D_});
    const ValueId lse =
        step == 0 ? lse_ : write_.value({all_tokens(), query_heads(), 1}, DType::fp32);
    attention(seen, o, lse, all_tokens());
    if (step == 0) {
      write_.forward(Kernel::cast, part, {n, narrow_and_wide}, {o}, {sum});
    } else {
      write_.forward(Kernel::add, part, {n}, {o, lse}, {sum, lse_},
                     {Lane::compute, {}, DType::fp32});
    }
    seen = {seen_.q, pair, pair};
  }
  write_.forward(Kernel::cast, part, {n, narrow_and_wide}, {sum}, {seen_o_});
}

// Keys and values go around once more, and their gradients in fp32 one step behind them, until each
// is back at the rank whose tokens it is of.
void AttentionHalf::attend_around_ring_backward(ValueId d_o, const Operands& d) {
  const std::int64_t n = all_tokens() * query_heads() * D_, narrow_and_wide = width_ + 4;
  const OpPlace in_fp32{Lane::compute, {}, DType::fp32};
  const ValueId d_q = write_.value({all_tokens(), query_heads(), D_}, DType::fp32);
  ValueId d_pair = write_.value({2 * all_tokens(), key_heads(), D_}, DType::fp32);
  ValueId pair = packed_pair(Pass::backward);
  Operands seen = seen_;
  for (std::int64_t step = 0; step < cp_; ++step) {
    if (step + 1 < cp_) pair = passed_on(Pass::backward, pair, dtype_);
    const Operands found = gradients_of(all_tokens());
    attention_backward(d_o, seen, found, all_tokens());
    if (step == 0) {
      write_.backward(Kernel::cast, part, {n, narrow_and_wide}, {found.q}, {d_q});
      write_.backward(Kernel::cast, part, {pair_elements(), narrow_and_wide}, {found.k, found.v},
                      {d_pair});
    } else {
      write_.backward(Kernel::add, part, {n}, {found.q}, {d_q}, in_fp32);
      write_.backward(Kernel::add, part, {pair_elements()}, {found.k, found.v}, {d_pair}, in_fp32);
    }
    d_pair = passed_on(Pass::backward, d_pair, DType::fp32);
    seen = {seen_.q, pair, pair};
  }
  write_.backward(Kernel::cast, part, {n, narrow_and_wide}, {d_q}, {d.q});
  write_.backward(Kernel::cast, part, {pair_elements(), narrow_and_wide}, {d_pair}, {d.k, d.v});
}

}  // namespace xt

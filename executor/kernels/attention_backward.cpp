// Backward of attention: scores are computed again from lse, one block of query rows at a time.
//
// Source: Dao 2023, "FlashAttention-2", algorithm 2

#include <cmath>

#include "executor/kernels/attention_parts.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

struct Backward {
  AttentionShape shape;
  const float* d_o;
  const float* q;
  const float* k;
  const float* v;
  const float* o;
  const float* lse;
  float* dq;
  float* dk;
  float* dv;
  float* p;   ///< [attention_block, columns]: probabilities
  float* ds;  ///< [attention_block, columns]: gradients of scores
};

// From scores s and dp = dO·Vᵀ: p = exp(s − lse) and ds = p · (dp − dO·O) · scale.
XT_PER_INSTRUCTION_SET void differentiate(float* p, float* ds, std::int64_t first,
                                          std::int64_t last, std::int64_t keys, float lse,
                                          float along_o, float scale) {
#pragma omp simd
  for (std::int64_t j = first; j < last; ++j) {
    p[j] = exponential(p[j] - lse);
    ds[j] = p[j] * (ds[j] - along_o) * scale;
  }
  for (float* row : {p, ds}) {
    std::fill(row, row + first, 0.0f);
    std::fill(row + last, row + keys, 0.0f);
  }
}

XT_PER_INSTRUCTION_SET float inner_product(const float* a, const float* b, std::int64_t n) {
  return dot(a, b, n);
}

std::int64_t key_offset(const AttentionShape& shape, const AttentionBlock& block) {
  return (block.document + block.first_key) * shape.key_stride() +
         block.head / shape.queries_per_key() * shape.D;
}

std::int64_t query_offset(const AttentionShape& shape, const AttentionBlock& block) {
  return block.token() * shape.query_stride() + block.head * shape.D;
}

// Probabilities, gradients of scores, and dq of some rows of the block.
void backward_rows(const Backward& b, const AttentionBlock& block, std::int64_t begin,
                   std::int64_t end) {
  const AttentionShape& shape = b.shape;
  const std::int64_t rows = end - begin, D = shape.D, stride = shape.query_stride();
  const std::int64_t key = key_offset(shape, block);
  const std::int64_t query = query_offset(shape, block) + begin * stride;
  float* p = b.p + begin * shape.columns;
  float* ds = b.ds + begin * shape.columns;
  const std::int64_t seen_by_last = block.seen_end(end - 1);
  gemm(rows, seen_by_last, D, {b.q + query, stride}, {b.k + key, shape.key_stride(), true},
       {p, shape.columns}, shape.scale);
  gemm(rows, seen_by_last, D, {b.d_o + query, stride}, {b.v + key, shape.key_stride(), true},
       {ds, shape.columns});
  for (std::int64_t row = 0; row < rows; ++row) {
    const float along_o =
        inner_product(b.d_o + query + row * stride, b.o + query + row * stride, D);
    const float lse = b.lse[(block.token() + begin + row) * shape.H + block.head];
    differentiate(p + row * shape.columns, ds + row * shape.columns,
                  block.seen_begin(begin + row, shape.window), block.seen_end(begin + row),
                  block.keys(), lse, along_o, shape.scale);
  }
  gemm(rows, D, seen_by_last, {ds, shape.columns}, {b.k + key, shape.key_stride()},
       {b.dq + query, stride});
}

// What the block adds to dk and dv of some keys.
void backward_keys(const Backward& b, const AttentionBlock& block, std::int64_t begin,
                   std::int64_t end) {
  const AttentionShape& shape = b.shape;
  const std::int64_t stride = shape.query_stride();
  const std::int64_t key = key_offset(shape, block) + begin * shape.key_stride();
  const std::int64_t query = query_offset(shape, block);
  gemm(end - begin, shape.D, block.rows, {b.p + begin, shape.columns, true},
       {b.d_o + query, stride}, {b.dv + key, shape.key_stride(), 1});
  gemm(end - begin, shape.D, block.rows, {b.ds + begin, shape.columns, true}, {b.q + query, stride},
       {b.dk + key, shape.key_stride(), 1});
}

void backward_document(const Backward& b, std::int64_t document, std::int64_t length) {
  for (std::int64_t head = 0; head < b.shape.H; ++head) {
    for (std::int64_t first = 0; first < length; first += attention_block) {
      const AttentionBlock block = attention_block_at(b.shape, document, length, first, head);
      for_block_rows(block, b.shape, [&](std::int64_t begin, std::int64_t end) {
        backward_rows(b, block, begin, end);
      });
      for_rows(block.keys(), 2 * block.rows * b.shape.D,
               [&](std::int64_t begin, std::int64_t end) { backward_keys(b, block, begin, end); });
    }
  }
}

void attention_backward(const KernelCall& call) {
  const AttentionShape shape(call);
  const std::int64_t queries = shape.T * shape.H * shape.D, keys = shape.T * shape.K * shape.D;
  const WideInput d_o(call.inputs[0], queries), q(call.inputs[1], queries), k(call.inputs[2], keys),
      v(call.inputs[3], keys), o(call.inputs[4], queries);
  const auto* lse = elements<float>(call.inputs[5], shape.T * shape.H);
  const auto* boundaries = elements<std::int32_t>(call.inputs[6], shape.T + 1);
  const WideOutput dq(call.outputs[0], queries), dk(call.outputs[1], keys),
      dv(call.outputs[2], keys);
  const at::Tensor p = scratch(attention_block, shape.columns),
                   ds = scratch(attention_block, shape.columns);
  std::fill_n(dk.data(), keys, 0.0f);
  std::fill_n(dv.data(), keys, 0.0f);
  const Backward backward{shape,
                          d_o.data(),
                          q.data(),
                          k.data(),
                          v.data(),
                          o.data(),
                          lse,
                          dq.data(),
                          dk.data(),
                          dv.data(),
                          p.mutable_data_ptr<float>(),
                          ds.mutable_data_ptr<float>()};
  for_documents(boundaries, shape, [&](std::int64_t document, std::int64_t length) {
    backward_document(backward, document, length);
  });
  dq.store();
  dk.store();
  dv.store();
}

// The probability of nothing against what comes of it: −Σ exp(sink − lse) · (dO·O), over tokens.
void sinks_backward(const KernelCall& call) {
  const std::int64_t T = call.extent(0), H = call.extent(1), D = call.extent(2);
  const auto* lse = elements<float>(call.inputs[2], T * H);
  with_element_of(call.inputs[0], [&](auto element) {
    using Element = decltype(element);
    const auto* d_o = elements<Element>(call.inputs[0], T * H * D);
    const auto* o = elements<Element>(call.inputs[1], T * H * D);
    const auto* sinks = elements<Element>(call.inputs[3], H);
    auto* dsinks = writable<Element>(call.outputs[0], H);
    for_rows(H, T * D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        float sum = 0;
        for (std::int64_t row = h; row < T * H; row += H)
          sum += std::exp(wide(sinks[h]) - lse[row]) * dot(d_o + row * D, o + row * D, D);
        put(dsinks[h], -sum);
      }
    });
  });
}

}  // namespace

void enter_attention_backward(KernelTable& table) {
  entry(table, Kernel::sinks_backward) = sinks_backward;
  entry(table, Kernel::attention_backward) = attention_backward;
}

}  // namespace xt

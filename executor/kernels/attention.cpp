// Causal attention within each document of a pack, with fewer key heads than query heads, perhaps
// within a window, and with a logit of each head that attends to nothing (a sink).
//
// Source: Dao 2023, "FlashAttention-2", §2.3 for what is saved: o and lse, the logarithm of the sum
// of exponentials of each row's scores; Hugging Face transformers, modeling_gpt_oss.py, for sinks

#include <array>
#include <cmath>

#include "executor/kernels/attention_parts.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/operands.h"
#include "executor/kernels/vector_math.h"

namespace xt {

AttentionShape::AttentionShape(const KernelCall& call)
    : T(call.extent(0)),
      H(call.extent(1)),
      K(call.extent(2)),
      D(call.extent(3)),
      longest(call.extent(5)),
      window(longest),
      columns(longest),
      scale(static_cast<float>(call.constants.attention_scale) / std::sqrt(static_cast<float>(D))) {
  XT_CHECK(K > 0 && H % K == 0, H, K);
  if (call.work.extents[5].is_symbol()) return;
  columns = window + attention_block;
  longest = T;
}

namespace {

struct Forward {
  AttentionShape shape;
  const float* q;
  const float* k;
  const float* v;
  float* o;
  float* lse;
  const at::Tensor* sinks;  ///< [H], or none
  float* scores;            ///< [attention_block, columns]
};

float sink_of(const at::Tensor& sinks, std::int64_t head) {
  return sinks.scalar_type() == at::kFloat ? sinks.const_data_ptr<float>()[head]
                                           : wide(sinks.const_data_ptr<c10::BFloat16>()[head]);
}

// Makes rows of scores exponentials less their largest, zero where the row may not see, and leaves
// what their products must be divided by.
XT_PER_INSTRUCTION_SET void exponentiate(const Forward& f, std::int64_t keys,
                                         const AttentionBlock& block, std::int64_t begin,
                                         std::int64_t end, float* sums, float* largest_scores) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* s = f.scores + row * f.shape.columns;
    const std::int64_t first = block.seen_begin(row, f.shape.window), last = block.seen_end(row);
    float top = largest(s + first, last - first), sum = 0;
    if (f.sinks != nullptr) {
      const float sink = sink_of(*f.sinks, block.head);
      top = std::max(top, sink);
      sum = exponential(sink - top);
    }
    std::fill(s, s + first, 0.0f);
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = first; j < last; ++j) {
      s[j] = exponential(s[j] - top);
      sum += s[j];
    }
    std::fill(s + last, s + keys, 0.0f);
    sums[row] = sum;
    largest_scores[row] = top;
  }
}

XT_PER_INSTRUCTION_SET void divide(float* row, std::int64_t n, float by) {
  const float factor = 1.0f / by;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
}

void forward_rows(const Forward& f, const AttentionBlock& block, std::int64_t begin,
                  std::int64_t end) {
  const AttentionShape& shape = f.shape;
  const std::int64_t rows = end - begin, keys = block.seen_end(end - 1), D = shape.D;
  const std::int64_t key = (block.document + block.first_key) * shape.key_stride() +
                           block.head / shape.queries_per_key() * D;
  const std::int64_t query = (block.token() + begin) * shape.query_stride() + block.head * D;
  float* scores = f.scores + begin * shape.columns;
  std::array<float, attention_block> sums, tops;
  gemm(rows, keys, D, {f.q + query, shape.query_stride()}, {f.k + key, shape.key_stride(), true},
       {scores, shape.columns}, shape.scale);
  exponentiate(f, keys, block, begin, end, sums.data(), tops.data());
  gemm(rows, D, keys, {scores, shape.columns}, {f.v + key, shape.key_stride()},
       {f.o + query, shape.query_stride()});
  for (std::int64_t row = begin; row < end; ++row) {
    const auto i = static_cast<std::size_t>(row);
    divide(f.o + query + (row - begin) * shape.query_stride(), D, sums[i]);
    f.lse[(block.token() + row) * shape.H + block.head] = tops[i] + std::log(sums[i]);
  }
}

void attention(const KernelCall& call) {
  const AttentionShape shape(call);
  const std::int64_t queries = shape.T * shape.H * shape.D, keys = shape.T * shape.K * shape.D;
  const WideInput q(call.inputs[0], queries), k(call.inputs[1], keys), v(call.inputs[2], keys);
  const auto* boundaries = elements<std::int32_t>(call.inputs[3], shape.T + 1);
  const WideOutput o(call.outputs[0], queries);
  const at::Tensor scores = scratch(attention_block, shape.columns);
  const Forward forward{shape,
                        q.data(),
                        k.data(),
                        v.data(),
                        o.data(),
                        writable<float>(call.outputs[1], shape.T * shape.H),
                        call.inputs.size() > 4 ? &call.inputs[4] : nullptr,
                        scores.mutable_data_ptr<float>()};
  for_documents(boundaries, shape, [&](std::int64_t document, std::int64_t length) {
    for (std::int64_t head = 0; head < shape.H; ++head) {
      for (std::int64_t first = 0; first < length; first += attention_block) {
        const AttentionBlock block = attention_block_at(shape, document, length, first, head);
        for_block_rows(block, shape, [&](std::int64_t begin, std::int64_t end) {
          forward_rows(forward, block, begin, end);
        });
      }
    }
  });
  o.store();
}

}  // namespace

void enter_attention(KernelTable& table) { entry(table, Kernel::attention) = attention; }

}  // namespace xt

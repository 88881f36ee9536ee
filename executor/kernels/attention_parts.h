#pragma once

// What attention and its backward share: where heads and documents lie. Private to kernels/.
//
// Both take a block of query rows at a time and all keys that the block may see, so that the scores
// of a block are one matrix in the cache and the products that make and use it are large. The
// workspace does not depend on how many threads there are: threads share the rows of a block.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "costmodel/diagnostics/check.h"
#include "executor/kernels/gemm.h"
#include "executor/kernels/kernel_table.h"

namespace xt {

/// Query rows whose scores are held at once.
inline constexpr std::int64_t attention_block = 64;

/// Extents of an attention op. A query sees `window` keys at most, its own among them.
struct AttentionShape {
  std::int64_t T, H, K, D, longest, window;
  std::int64_t columns;  ///< of the scores of a block
  float scale;

  explicit AttentionShape(const KernelCall& call);
  std::int64_t queries_per_key() const { return H / K; }
  std::int64_t query_stride() const { return H * D; }
  std::int64_t key_stride() const { return K * D; }
};

/// A block of query rows of one head of one document.
struct AttentionBlock {
  std::int64_t document;  ///< first token of the document
  std::int64_t first;     ///< first query row, counted in the document
  std::int64_t rows;
  std::int64_t head;

  std::int64_t first_key;  ///< that any row sees, counted in the document

  /// Keys that the rows see, from the first one on.
  std::int64_t keys() const { return first + rows - first_key; }
  std::int64_t token() const { return document + first; }
  /// Those that row `row` of the block sees, among these.
  std::int64_t seen_end(std::int64_t row) const { return first + row + 1 - first_key; }
  std::int64_t seen_begin(std::int64_t row, std::int64_t window) const {
    return std::max<std::int64_t>(0, seen_end(row) - window);
  }
};

/// The block of `shape` that begins at query row `first` of a document.
inline AttentionBlock attention_block_at(const AttentionShape& shape, std::int64_t document,
                                         std::int64_t length, std::int64_t first,
                                         std::int64_t head) {
  return {document, first, std::min(attention_block, length - first), head,
          std::max<std::int64_t>(0, first + 1 - shape.window)};
}

/// Calls `function(first token, length)` for each document.
///
/// Assumes: boundaries [T+1] ascend from 0 and end in as many T as it takes
template <typename Function>
void for_documents(const std::int32_t* boundaries, const AttentionShape& shape,
                   const Function& function) {
  for (std::int64_t i = 0; i < shape.T && boundaries[i] < shape.T; ++i) {
    const std::int64_t begin = boundaries[i], length = boundaries[i + 1] - begin;
    XT_CHECK(length > 0 && length <= shape.longest && begin + length <= shape.T, begin, length,
             shape.longest, shape.T);
    function(begin, length);
  }
}

/// Calls `function(begin, end)` over the rows of a block, in several threads if it is worth it.
template <typename Function>
void for_block_rows(const AttentionBlock& block, const AttentionShape& shape,
                    const Function& function) {
  constexpr std::int64_t products_per_thread = 65536;
  at::parallel_for(0, block.rows,
                   std::max<std::int64_t>(8, products_per_thread / (block.keys() * shape.D)),
                   function);
}

}  // namespace xt

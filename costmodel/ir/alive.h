#pragma once

// Who holds memory at one instant of a step: its buffers, grouped by what made them.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "costmodel/ir/memory.h"

namespace xt {

/// Buffers of one category and kind that ops of equal phase, part and kernel brought into being, in
/// whatever layers.
struct Holders {
  MemoryCategory category = MemoryCategory::other;
  BufferKind kind = BufferKind::transient;
  Origin origin;  ///< of the first of those ops; of resident buffers, of the first that touches
                  ///< them or, of moments, their parameters
  Kernel kernel = Kernel::add;
  std::vector<std::int16_t> layers;  ///< in order, each once; empty outside of the decoder
  std::int64_t n_buffers = 0;
  Bytes bytes;
};

/// Everything in `space` that has memory while `op` runs, most bytes first. Bytes add up to those
/// of memory_at().
std::vector<Holders> holders_at(const Schedule& schedule, const Bindings& bindings, Space space,
                                OpId op);

/// The same where a step of a pipeline's stage has run each section `runs` times when the one of
/// `op` begins: what other micro-batches hold stands beside. Bytes add up to those of stage_peak().
std::vector<Holders> holders_at(const Schedule& schedule, const Bindings& bindings, Space space,
                                OpId op, std::span<const std::int32_t> runs);

/// What holders are, such as `made by forward mlp.down_proj matmul`.
std::string holder_name(const Schedule& schedule, const Holders& of);

/// Layers as ranges, such as `0-46, 48`.
std::string layer_ranges(const std::vector<std::int16_t>& layers);

}  // namespace xt

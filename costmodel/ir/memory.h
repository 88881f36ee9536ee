#pragma once

// Memory of a schedule as its own arithmetic: a prefix sum over issue order, independent of timing
// and therefore the same for every interpreter.

#include <array>
#include <vector>

#include "costmodel/ir/schedule.h"

namespace xt {

/// Bytes per MemoryCategory.
using CategoryBytes = std::array<Bytes, memory_category_names.size()>;

/// The highest point of one space, and what it is made of.
struct MemoryPeak {
  Bytes peak;
  OpId op = no_op;  ///< the first op at which the peak is reached
  CategoryBytes by_category{};
};

/// Whether `buffer` has memory while `op` runs; a view never has any of its own.
bool is_alive(const Buffer& buffer, OpId op);

/// Bytes in use while each op runs, its outputs and workspace included and nothing it ends yet
/// gone.
///
/// Units:   bytes, one value per op
/// Assumes: a transient buffer is allocated when its first writer is issued
std::vector<Bytes> memory_curve(const Schedule& schedule, const Bindings& bindings, Space space);

/// Bytes in use while `op` runs, split by category.
MemoryPeak memory_at(const Schedule& schedule, const Bindings& bindings, Space space, OpId op);

/// The peak of `memory_curve`, split by category.
MemoryPeak memory_peak(const Schedule& schedule, const Bindings& bindings, Space space);

/// The peaks of all spaces, by Space.
std::array<MemoryPeak, space_names.size()> memory_peaks(const Schedule& schedule,
                                                        const Bindings& bindings);

/// What an allocator takes that keeps a reserve of memory per lane, as PyTorch's does per stream:
/// the peaks of all pools, whenever each is reached. What is held back is in its buffer's pool.
///
/// Assumes: a pool never returns memory, and finds room without fragmentation
/// Source:  PyTorch, c10/cuda/CUDACachingAllocator.cpp: blocks are reused on their own stream only
Bytes pooled_peak(const Schedule& schedule, const Bindings& bindings, Space space);

/// The peak among the ops of `phase`; zero where the phase has none.
MemoryPeak memory_peak_in(const Schedule& schedule, const Bindings& bindings, Space space,
                          Phase phase);

}  // namespace xt

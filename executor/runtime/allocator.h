#pragma once

// The CPU memory of a rank: caches blocks, so that op times do not depend on the system's
// allocator, and counts exactly what was asked for, so that memory compares with a prediction.
// Knows spaces and categories; knows no op and no buffer.

#include <array>
#include <cstdint>

#include "costmodel/ir/memory_category.h"
#include "costmodel/units/quantity.h"

namespace xt {

inline constexpr std::size_t n_spaces = space_names.size();
inline constexpr std::size_t n_memory_categories = memory_category_names.size();

/// What is allocated in one space, in requested bytes.
struct SpaceUsage {
  Bytes current;
  Bytes peak;  ///< largest `current` since the last reset_peak()
  std::array<Bytes, n_memory_categories> by_category;
  std::array<Bytes, n_memory_categories> by_category_at_peak;

  /// Bytes of `category` that are allocated now.
  Bytes of(MemoryCategory category) const {
    return by_category[static_cast<std::size_t>(category)];
  }
  /// Counts bytes of `category` that are allocated, or freed where they are negative.
  void add(MemoryCategory category, Bytes bytes) {
    current += bytes;
    by_category[static_cast<std::size_t>(category)] += bytes;
    if (current > peak) reset_peak();
  }
  /// Makes the peak what is held now.
  void reset_peak() {
    peak = current;
    by_category_at_peak = by_category;
  }
};

/// What all spaces hold, and what the allocator holds of the system for them.
struct MemoryUsage {
  std::array<SpaceUsage, n_spaces> spaces;
  Bytes reserved;                   ///< taken from the system; never given back
  Bytes beside;                     ///< taken of a device beside its allocator; 0 of a CPU
  std::int64_t n_live = 0;          ///< allocations not yet freed
  std::int64_t n_allocations = 0;   ///< allocations since the program began
  std::int64_t n_system_calls = 0;  ///< times memory was taken from the system

  /// The usage of `space`.
  const SpaceUsage& of(Space space) const { return spaces[static_cast<std::size_t>(space)]; }
  /// Counts an allocation.
  void take(Space space, MemoryCategory category, Bytes bytes) {
    spaces[static_cast<std::size_t>(space)].add(category, bytes);
    ++n_live;
    ++n_allocations;
  }
  /// Counts that an allocation is freed.
  void give_back(Space space, MemoryCategory category, Bytes bytes) {
    spaces[static_cast<std::size_t>(space)].add(category, Bytes(-bytes.value));
    --n_live;
  }
  /// Makes the peak of every space what it holds now.
  void reset_peak() {
    for (SpaceUsage& space : spaces) space.reset_peak();
  }
};

/// Makes every ATen allocation of this process go through the caching, counting allocator.
///
/// An allocation throws OutOfMemory where the system has no more.
///
/// Assumes: called first thing in main, before anything is allocated by ATen
void install_allocator();

/// The counters now. Thread-safe.
MemoryUsage memory_usage();

/// From now on what would take `space` beyond `most` throws OutOfMemory. Thread-safe.
void limit_space(Space space, Bytes most);

/// Makes the peak of every space what it holds now. Thread-safe.
void reset_peak();

/// While it lives, allocations of this thread count as `category` in `space`; without one they are
/// `other` in the device space. A block keeps its space and category until freed, on any thread.
class AllocationScope {
 public:
  AllocationScope(Space space, MemoryCategory category);
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;

 private:
  Space outer_space_;
  MemoryCategory outer_category_;
};

}  // namespace xt

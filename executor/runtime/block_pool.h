#pragma once

// Blocks cut from larger pieces of memory, and joined again when they are free: requests whose
// sizes differ from step to step live on what the largest step took. Asks no system, counts
// nothing.

#include <array>
#include <cstddef>
#include <cstdint>

#include "costmodel/ir/memory_category.h"

namespace xt {

/// Stands in front of every block.
struct alignas(64) MemoryBlock {
  std::size_t bytes;                       ///< behind this header; a multiple of its alignment
  MemoryBlock *before, *behind;            ///< beside it in its piece; null at the ends
  MemoryBlock *previous_free, *next_free;  ///< of its size, while it is free
  std::uint32_t mark;                      ///< whether it is free, live, or no block at all
  std::uint8_t pool;                       ///< which one has it
  Space space;                             ///< noted by who takes it; so are the next
  MemoryCategory category;
  std::size_t requested;  ///< bytes of it that may be touched
};
static_assert(sizeof(MemoryBlock) == 64);

/// Bytes of a block for `requested`: one of eight sizes an octave, so at most an eighth larger.
std::size_t block_bytes(std::size_t requested);

/// Free blocks, by size. Not thread-safe.
///
/// Source: Masmano, Ripoll, Crespo, Real 2004, "TLSF: a new dynamic memory allocator for real-time
///         systems", ECRTS
class BlockPool {
 public:
  /// Which blocks are cut for whom.
  struct Rules {
    std::size_t least_rest;    ///< in bytes, header included: what is less stays with the block
    std::size_t most_octaves;  ///< by which a block may be larger than what is asked for
  };

  /// `id` is noted in its blocks.
  BlockPool(std::uint8_t id, Rules rules) : id_(id), rules_(rules) {}

  [[nodiscard]] std::uint8_t id() const { return id_; }
  /// Makes `bytes` from `start` on one free block, header included.
  ///
  /// Assumes: both are multiples of a header's alignment
  void add(std::byte* start, std::size_t bytes);
  /// A block of `bytes` or more, of whose content nothing may be touched yet; null if none is free.
  ///
  /// Assumes: `bytes` comes from block_bytes()
  MemoryBlock* take(std::size_t bytes);
  /// Frees `block`, which this pool gave.
  void give_back(MemoryBlock* block);

 private:
  static constexpr std::size_t n_sizes = std::size_t{48} << 3;

  void put(MemoryBlock* block);
  void remove(MemoryBlock* block);
  void cut(MemoryBlock* block, std::size_t bytes);
  void absorb_next(MemoryBlock* block);

  std::uint8_t id_;
  Rules rules_;
  std::array<MemoryBlock*, n_sizes> free_{};
};

}  // namespace xt

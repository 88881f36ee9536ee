#include "executor/runtime/block_pool.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <bit>
#include <new>
#include <span>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr std::size_t alignment = alignof(MemoryBlock);
constexpr std::uint32_t live_mark = 0x5854a110;
constexpr std::uint32_t free_mark = 0x5854f4ee;

constexpr unsigned steps_per_octave_log2 = 3;
constexpr std::size_t steps_per_octave = std::size_t{1} << steps_per_octave_log2;

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

/// The smallest size that `requested` fits into.
constexpr SizeClass size_class(std::size_t requested) {
  const std::size_t units = (requested + alignment - 1) / alignment;
  if (units <= steps_per_octave) return {units, units * alignment};
  const unsigned octave =
      static_cast<unsigned>(std::bit_width(units - 1)) - steps_per_octave_log2 - 1;
  const std::size_t rounded = ((units - 1) >> octave) + 1;
  return {((octave + 1) << steps_per_octave_log2) + rounded - steps_per_octave,
          (rounded << octave) * alignment};
}

/// The largest size that fits into `bytes`, which are a multiple of the alignment.
constexpr std::size_t largest_within(std::size_t bytes) {
  const SizeClass above = size_class(bytes);
  return above.bytes == bytes ? above.index : above.index - 1;
}

std::byte* content(MemoryBlock* block) { return reinterpret_cast<std::byte*>(block + 1); }

}  // namespace

std::size_t block_bytes(std::size_t requested) { return size_class(requested).bytes; }

void BlockPool::add(std::byte* start, std::size_t bytes) {
  XT_CHECK(bytes > sizeof(MemoryBlock) && bytes % alignment == 0, bytes);
  auto* const block = new (start) MemoryBlock{};
  block->bytes = bytes - sizeof(MemoryBlock);
  block->pool = id_;
  ASAN_POISON_MEMORY_REGION(content(block), block->bytes);
  put(block);
}

MemoryBlock* BlockPool::take(std::size_t bytes) {
  const std::size_t wanted = size_class(bytes).index;
  XT_CHECK(wanted < n_sizes, wanted);
  const std::size_t most = std::min(n_sizes - wanted, rules_.most_octaves * steps_per_octave);
  const auto sizes = std::span(free_).subspan(wanted, most);
  const auto found = std::ranges::find_if(sizes, [](const MemoryBlock* block) { return block; });
  if (found == sizes.end()) return nullptr;
  MemoryBlock* const block = *found;
  remove(block);
  if (block->bytes - bytes >= rules_.least_rest) cut(block, bytes);
  return block;
}

void BlockPool::give_back(MemoryBlock* block) {
  XT_CHECK(block->mark == live_mark && block->pool == id_, block->mark);
  ASAN_POISON_MEMORY_REGION(content(block), block->bytes);
  if (block->behind != nullptr && block->behind->mark == free_mark) {
    remove(block->behind);
    absorb_next(block);
  }
  if (block->before != nullptr && block->before->mark == free_mark) {
    block = block->before;
    remove(block);
    absorb_next(block);
  }
  put(block);
}

void BlockPool::put(MemoryBlock* block) {
  MemoryBlock*& first = free_[largest_within(block->bytes)];
  block->mark = free_mark;
  block->previous_free = nullptr;
  block->next_free = first;
  if (first != nullptr) first->previous_free = block;
  first = block;
}

void BlockPool::remove(MemoryBlock* block) {
  if (block->previous_free != nullptr)
    block->previous_free->next_free = block->next_free;
  else
    free_[largest_within(block->bytes)] = block->next_free;
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  block->mark = live_mark;
}

// What is left behind the first `bytes` is a block of its own, and free.
void BlockPool::cut(MemoryBlock* block, std::size_t bytes) {
  std::byte* const start = content(block) + bytes;
  ASAN_UNPOISON_MEMORY_REGION(start, sizeof(MemoryBlock));
  auto* const rest = new (start) MemoryBlock{};
  rest->bytes = block->bytes - bytes - sizeof(MemoryBlock);
  rest->pool = id_;
  rest->before = block;
  rest->behind = block->behind;
  if (rest->behind != nullptr) rest->behind->before = rest;
  block->behind = rest;
  block->bytes = bytes;
  put(rest);
}

void BlockPool::absorb_next(MemoryBlock* block) {
  MemoryBlock* const next = block->behind;
  block->bytes += sizeof(MemoryBlock) + next->bytes;
  block->behind = next->behind;
  if (block->behind != nullptr) block->behind->before = block;
  next->mark = 0;
  ASAN_POISON_MEMORY_REGION(next, sizeof(MemoryBlock));
}

}  // namespace xt

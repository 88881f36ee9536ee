#include "executor/runtime/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstddef>
#include <mutex>
#include <optional>

#include "executor/runtime/block_pool.h"
#include "executor/runtime/out_of_memory.h"

namespace xt {
namespace {

constexpr std::size_t page_bytes = std::size_t{4} << 10;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t slab_bytes = std::size_t{8} << 20;
constexpr std::size_t large_bytes = std::size_t{1} << 20;

thread_local Space this_space = Space::device;
thread_local MemoryCategory this_category = MemoryCategory::other;

/// Maps `bytes` and touches every page, so that no later use pays for a page fault; null where the
/// system has no more.
std::byte* map_touched(std::size_t bytes) {
  const std::size_t mapped = bytes + huge_page_bytes;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t aligned = (address + huge_page_bytes - 1) & ~(huge_page_bytes - 1);
  auto* start = static_cast<std::byte*>(base) + (aligned - address);
  madvise(start, bytes, MADV_HUGEPAGE);
  for (std::size_t i = 0; i < bytes; i += page_bytes) start[i] = std::byte{0};
  return start;
}

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t requested) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (requested == 0) return {nullptr, nullptr, &release, cpu};
    const std::scoped_lock lock(mutex_);
    check_limit(Bytes(static_cast<std::int64_t>(requested)));
    MemoryBlock* const block = take(block_bytes(requested));
    block->requested = requested;
    block->space = this_space;
    block->category = this_category;
    usage_.take(block->space, block->category, Bytes(static_cast<std::int64_t>(requested)));
    void* data = block + 1;
    ASAN_UNPOISON_MEMORY_REGION(data, requested);  // the rest of the block may not be touched
    return {data, data, &release, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  MemoryUsage usage() {
    const std::scoped_lock lock(mutex_);
    return usage_;
  }

  void limit(Space space, Bytes most) {
    const std::scoped_lock lock(mutex_);
    limits_[static_cast<std::size_t>(space)] = most;
  }

  void reset_peak() {
    const std::scoped_lock lock(mutex_);
    usage_.reset_peak();
  }

 private:
  static void release(void* data);

  void give_back(MemoryBlock* block) {
    const std::scoped_lock lock(mutex_);
    usage_.give_back(block->space, block->category,
                     Bytes(static_cast<std::int64_t>(block->requested)));
    pool_of(block->pool).give_back(block);
  }

  void check_limit(Bytes asked) const {
    const std::optional<Bytes>& limit = limits_[static_cast<std::size_t>(this_space)];
    if (limit && usage_.of(this_space).current + asked > *limit)
      throw beyond_limit(asked, *limit, this_space, this_category, usage_);
  }

  BlockPool& pool_of(std::uint8_t id) { return id == large_.id() ? large_ : small_; }

  /// A free block, else one of new memory: a slab for small ones, its own for a large one.
  MemoryBlock* take(std::size_t bytes) {
    const std::size_t block = sizeof(MemoryBlock) + bytes;
    const bool is_large = block >= large_bytes;
    BlockPool& pool = is_large ? large_ : small_;
    if (MemoryBlock* const found = pool.take(bytes)) return found;
    const std::size_t taken = is_large ? block : slab_bytes;
    pool.add(from_system(taken), taken);
    return pool.take(bytes);
  }

  std::byte* from_system(std::size_t bytes) {
    std::byte* start = map_touched(bytes);
    const Bytes asked(static_cast<std::int64_t>(bytes));
    if (start == nullptr) throw refused_by_system(asked, this_space, this_category, usage_);
    usage_.reserved += asked;
    ++usage_.n_system_calls;
    return start;
  }

  std::mutex mutex_;
  MemoryUsage usage_;
  std::array<std::optional<Bytes>, n_spaces> limits_;
  // A large block is cut for what is more than a quarter of it, so that small ones do not keep
  // memory from those that need it whole.
  BlockPool small_{0, {.least_rest = 2 * sizeof(MemoryBlock), .most_octaves = 48}};
  BlockPool large_{1, {.least_rest = large_bytes, .most_octaves = 2}};
};

/// Lives until the process is gone: tensors in static storage are freed after main.
CachingAllocator& allocator() {
  static auto* const instance = new CachingAllocator;
  return *instance;
}

void CachingAllocator::release(void* data) {
  if (data != nullptr) allocator().give_back(static_cast<MemoryBlock*>(data) - 1);
}

}  // namespace

void install_allocator() { c10::SetCPUAllocator(&allocator(), /*priority=*/1); }

MemoryUsage memory_usage() { return allocator().usage(); }

void limit_space(Space space, Bytes most) { allocator().limit(space, most); }

void reset_peak() { allocator().reset_peak(); }

AllocationScope::AllocationScope(Space space, MemoryCategory category)
    : outer_space_(this_space), outer_category_(this_category) {
  this_space = space;
  this_category = category;
}

AllocationScope::~AllocationScope() {
  this_space = outer_space_;
  this_category = outer_category_;
}

}  // namespace xt

#include "executor/runtime/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "costmodel/diagnostics/check.h"
#include "executor/runtime/out_of_memory.h"

namespace xt {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t page_bytes = std::size_t{4} << 10;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t slab_bytes = std::size_t{8} << 20;
constexpr std::size_t large_bytes = std::size_t{1} << 20;
constexpr std::uint32_t live_mark = 0x5854a110;

// Eight classes an octave: a block is at most an eighth larger than what was asked for.
constexpr unsigned steps_per_octave_log2 = 3;
constexpr std::size_t n_size_classes = std::size_t{48} << steps_per_octave_log2;

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

constexpr SizeClass size_class(std::size_t requested) {
  const std::size_t units = (requested + alignment - 1) / alignment;
  constexpr std::size_t steps = std::size_t{1} << steps_per_octave_log2;
  if (units <= steps) return {units, units * alignment};
  const unsigned octave =
      static_cast<unsigned>(std::bit_width(units - 1)) - steps_per_octave_log2 - 1;
  const std::size_t rounded = ((units - 1) >> octave) + 1;
  return {((octave + 1) << steps_per_octave_log2) + rounded - steps,
          (rounded << octave) * alignment};
}

/// Stands in front of every block.
struct alignas(alignment) Header {
  std::size_t requested;
  Header* next_free;
  std::uint32_t size_class;
  std::uint32_t mark;
  Space space;
  MemoryCategory category;
};
static_assert(sizeof(Header) == alignment);

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
    const SizeClass wanted = size_class(requested);
    const std::scoped_lock lock(mutex_);
    check_limit(Bytes(static_cast<std::int64_t>(requested)));
    Header* header = take(wanted);
    header->requested = requested;
    header->size_class = static_cast<std::uint32_t>(wanted.index);
    header->mark = live_mark;
    header->space = this_space;
    header->category = this_category;
    usage_.take(header->space, header->category, Bytes(static_cast<std::int64_t>(requested)));
    void* data = header + 1;
    ASAN_POISON_MEMORY_REGION(data, wanted.bytes);  // what was not asked for may not be touched
    ASAN_UNPOISON_MEMORY_REGION(data, requested);
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

  void give_back(Header* header) {
    const std::scoped_lock lock(mutex_);
    XT_CHECK(header->mark == live_mark, header->mark);
    header->mark = 0;
    ASAN_POISON_MEMORY_REGION(header + 1, header->requested);
    usage_.give_back(header->space, header->category,
                     Bytes(static_cast<std::int64_t>(header->requested)));
    header->next_free = free_[header->size_class];
    free_[header->size_class] = header;
  }

  void check_limit(Bytes asked) const {
    const std::optional<Bytes>& limit = limits_[static_cast<std::size_t>(this_space)];
    if (limit && usage_.of(this_space).current + asked > *limit)
      throw beyond_limit(asked, *limit, this_space, this_category, usage_);
  }

  /// A free block of the class, else a new one.
  Header* take(const SizeClass& wanted) {
    XT_CHECK(wanted.index < n_size_classes, wanted.index);
    if (Header* header = free_[wanted.index]) {
      free_[wanted.index] = header->next_free;
      return header;
    }
    const std::size_t block = sizeof(Header) + wanted.bytes;
    if (block >= large_bytes) return new (from_system(block)) Header{};
    if (slab_left_ < block) {
      slab_ = from_system(slab_bytes);
      slab_left_ = slab_bytes;
    }
    std::byte* start = slab_;
    slab_ += block;
    slab_left_ -= block;
    return new (start) Header{};
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
  std::array<Header*, n_size_classes> free_{};
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0;
};

/// Lives until the process is gone: tensors in static storage are freed after main.
CachingAllocator& allocator() {
  static auto* const instance = new CachingAllocator;
  return *instance;
}

void CachingAllocator::release(void* data) {
  if (data != nullptr) allocator().give_back(static_cast<Header*>(data) - 1);
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

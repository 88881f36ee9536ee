#include "executor/runtime/counted_memory.h"

#include <utility>

namespace xt {

struct MemoryCounters::Allocation {
  c10::DataPtr memory;
  std::shared_ptr<MemoryCounters> counters;
  Space space;
  MemoryCategory category;
  Bytes bytes;

  static void free(void* context) {
    const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(context));
    allocation->counters->count(allocation->space, allocation->category,
                                Bytes(-allocation->bytes.value));
    --allocation->counters->usage_.n_live;
  }
};

c10::DataPtr MemoryCounters::counted(c10::DataPtr memory, Space space, MemoryCategory category,
                                     Bytes bytes) {
  void* const data = memory.get();
  const c10::Device place = memory.device();
  count(space, category, bytes);
  ++usage_.n_live;
  ++usage_.n_allocations;
  auto allocation = std::make_unique<Allocation>(
      Allocation{std::move(memory), shared_from_this(), space, category, bytes});
  return {data, allocation.release(), &Allocation::free, place};
}

void MemoryCounters::reset_peak() {
  for (SpaceUsage& space : usage_.spaces) {
    space.peak = space.current;
    space.by_category_at_peak = space.by_category;
  }
}

void MemoryCounters::count(Space space, MemoryCategory category, Bytes bytes) {
  SpaceUsage& of = usage_.spaces[static_cast<std::size_t>(space)];
  of.current += bytes;
  of.by_category[static_cast<std::size_t>(category)] += bytes;
  if (of.current <= of.peak) return;
  of.peak = of.current;
  of.by_category_at_peak = of.by_category;
}

}  // namespace xt

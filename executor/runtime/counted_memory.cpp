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
    allocation->counters->usage_.give_back(allocation->space, allocation->category,
                                           allocation->bytes);
  }
};

c10::DataPtr MemoryCounters::counted(c10::DataPtr memory, Space space, MemoryCategory category,
                                     Bytes bytes) {
  void* const data = memory.get();
  const c10::Device place = memory.device();
  usage_.take(space, category, bytes);
  auto allocation = std::make_unique<Allocation>(
      Allocation{std::move(memory), shared_from_this(), space, category, bytes});
  return {data, allocation.release(), &Allocation::free, place};
}

}  // namespace xt

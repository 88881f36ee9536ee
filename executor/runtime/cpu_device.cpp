#include "executor/runtime/cpu_device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <omp.h>

#include <cstring>
#include <utility>

namespace xt {
namespace {

// What runs on a lane gets no team of threads: teams that together have more threads than there are
// cores sleep between their loops, and waking them takes longer than most loops of attention.
void work_alone() {
  at::get_num_threads();  // ATen sets a thread's number when first asked, and not again
  omp_set_num_threads(1);
}

class CpuDevice final : public Device {
 public:
  [[nodiscard]] c10::Device place(Space) const override { return c10::kCPU; }

  c10::DataPtr allocate(const Buffer& buffer, Bytes bytes) override {
    const AllocationScope scope(buffer.space, buffer.category);
    return c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(bytes.value));
  }

  void clear(void* memory, Space, Bytes bytes) override {
    if (bytes.value > 0) std::memset(memory, 0, static_cast<std::size_t>(bytes.value));
  }

  [[nodiscard]] MemoryUsage usage() const override { return memory_usage(); }
  void reset_peak() override { xt::reset_peak(); }

  void begin_step() override { lanes_.restart(); }

  [[nodiscard]] bool runs_at_issue(Lane lane) const override { return is_inline(lane); }

  void issue(Lane lane, LaneTask task) override {
    if (!is_inline(lane)) return lanes_.submit(lane, std::move(task));
    lanes_.wait(task.after);
    const WallTime start = std::chrono::steady_clock::now();
    *task.span = {start, task.run()};
    lanes_.end_inline(lane, task.ticket);
  }

  // A CPU's memory is not ordered by lanes: what another lane still uses cannot be given away, so
  // that the thread waits. Lowering lets compute and host ops end buffers wherever it can.
  void before_release(Lane lane, Ticket ticket) override {
    if (is_inline(lane)) return;
    Tickets own{};
    own[static_cast<std::size_t>(lane)] = ticket;
    lanes_.wait(own);
  }

  void end_step() override { lanes_.wait_all(); }

  void copy(const at::Tensor& to, const at::Tensor& from) override {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  }

  at::Tensor on_host(const at::Tensor& tensor) override { return tensor; }

  std::unique_ptr<Network> network(Rendezvous&) override { return nullptr; }

 private:
  Lanes lanes_{work_alone};
};

}  // namespace

std::unique_ptr<Device> cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace xt

#include "executor/cuda/cuda_device.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <utility>
#include <vector>

#include "costmodel/diagnostics/check.h"
#include "executor/cuda/counted_memory.h"
#include "executor/cuda/events.h"
#include "executor/cuda/nccl.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

/// What was issued, by ticket.
struct Issued {
  CudaEvent start, end;
  Span* span = nullptr;  ///< null of an op that the issuing thread ran
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(c10::DeviceIndex device) : device_(device) {
    c10::cuda::set_device(device);
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      streams_.push_back(c10::cuda::getStreamFromPool(
          static_cast<Lane>(lane) != Lane::compute && static_cast<Lane>(lane) != Lane::host,
          device));
    reads_.push_back(c10::cuda::getStreamFromPool(true, device));
  }

  [[nodiscard]] c10::Device place(Space space) const override {
    return space == Space::device ? c10::Device(c10::kCUDA, device_) : c10::Device(c10::kCPU);
  }

  c10::DataPtr allocate(const Buffer& buffer, Bytes bytes) override {
    const auto n = static_cast<std::size_t>(bytes.value);
    if (buffer.space != Space::device)
      return counters_->counted(at::getHostAllocator(at::kCUDA)->allocate(n), buffer.space,
                                buffer.category, bytes);
    begun_[index(buffer.lane)] = true;
    const c10::cuda::CUDAStreamGuard guard(stream(buffer.lane));
    return counters_->counted(c10::cuda::CUDACachingAllocator::get()->allocate(n), buffer.space,
                              buffer.category, bytes);
  }

  void clear(void* memory, Space space, Bytes bytes) override {
    if (bytes.value == 0) return;
    const auto n = static_cast<std::size_t>(bytes.value);
    if (space == Space::device)
      C10_CUDA_CHECK(cudaMemset(memory, 0, n));
    else
      std::fill_n(static_cast<std::byte*>(memory), n, std::byte{});
  }

  // Peaks of the device are the allocator's own, which knows what kernels take beside buffers.
  [[nodiscard]] MemoryUsage usage() const override {
    using Statistic = c10::CachingAllocator::StatType;
    const auto all = static_cast<std::size_t>(Statistic::AGGREGATE);
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_);
    MemoryUsage usage = counters_->usage();
    SpaceUsage& device = usage.spaces[static_cast<std::size_t>(Space::device)];
    const Bytes peak(std::max(device.peak.value, stats.requested_bytes[all].peak));
    device.by_category_at_peak[static_cast<std::size_t>(MemoryCategory::workspace)] +=
        peak - device.peak;
    device.peak = peak;
    usage.reserved = Bytes(stats.reserved_bytes[all].current);
    std::size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    usage.beside = Bytes(static_cast<std::int64_t>(total - free)) - usage.reserved;
    return usage;
  }

  void reset_peak() override {
    counters_->reset_peak();
    c10::cuda::CUDACachingAllocator::resetPeakStats(device_);
  }

  // Events count from an anchor that the host sees reached.
  void begin_step() override {
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    n_issued_ = 0;
    begun_ = {};
    anchor_.record(stream(Lane::compute));
    anchor_.wait();
    anchored_ = steady_clock::now();
  }

  [[nodiscard]] bool runs_at_issue(Lane) const override { return true; }

  void issue(Lane lane, LaneTask task) override {
    XT_CHECK(task.ticket == n_issued_ + 1, task.ticket, n_issued_);
    if (issued_.size() == n_issued_) issued_.emplace_back();
    Issued& own = issued_[n_issued_++];
    own.span = nullptr;
    if (lane == Lane::host) return run_on_host(task);
    const c10::cuda::CUDAStream& on = stream(lane);
    const c10::cuda::CUDAStreamGuard guard(on);
    wait_for_memory(lane);
    for (std::size_t other = 0; other < n_lanes; ++other)
      if (task.after[other] > 0 && other != index(lane) && other != index(Lane::host))
        issued_[task.after[other] - 1].end.hold_back(on);
    own.start.record(on);
    (void)task.run();
    own.end.record(on);
    own.span = task.span;
  }

  // Memory is used again in the order of its lane, which is that of the op that ends it.
  void before_release(Lane, Ticket) override {}

  void end_step() override {
    for (const c10::cuda::CUDAStream& one : streams_) one.synchronize();
    for (std::size_t i = 0; i < n_issued_; ++i) {
      Issued& of = issued_[i];
      if (of.span != nullptr)
        *of.span = {anchored_ + of.start.since(anchor_), anchored_ + of.end.since(anchor_)};
    }
  }

  // Pinned memory that is given back is not used again before the copy has ended.
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    const c10::cuda::CUDAStream on = c10::cuda::getCurrentCUDAStream(device_);
    C10_CUDA_CHECK(cudaMemcpyAsync(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes(),
                                   cudaMemcpyDefault, on));
    void* const pinned = to.device().is_cpu() ? to.mutable_data_ptr() : from.data_ptr();
    (void)at::getHostAllocator(at::kCUDA)->record_event(pinned, pinned, on);
  }

  // By a stream of its own, so that nothing that runs is waited for.
  at::Tensor on_host(const at::Tensor& tensor) override {
    at::Tensor host = at::empty(tensor.sizes(), tensor.dtype());
    C10_CUDA_CHECK(cudaMemcpyAsync(host.mutable_data_ptr(), tensor.const_data_ptr(),
                                   tensor.nbytes(), cudaMemcpyDeviceToHost, reads_.front()));
    reads_.front().synchronize();
    return host;
  }

  std::unique_ptr<Network> network(Rendezvous& rendezvous) override {
    return nccl_network(rendezvous, device_);
  }

 private:
  const c10::cuda::CUDAStream& stream(Lane lane) const { return streams_[index(lane)]; }

  void run_on_host(const LaneTask& task) {
    for (std::size_t other = 0; other < n_lanes; ++other)
      if (task.after[other] > 0 && other != index(Lane::host))
        issued_[task.after[other] - 1].end.wait();
    const WallTime start = steady_clock::now();
    *task.span = {start, task.run()};
  }

  // What begins with this op may lie where an op of the memory's own lane has just been.
  void wait_for_memory(Lane lane) {
    for (std::size_t other = 0; other < n_lanes; ++other) {
      if (!std::exchange(begun_[other], false) || other == index(lane)) continue;
      fence_.record(streams_[other]);
      fence_.hold_back(stream(lane));
    }
  }

  c10::DeviceIndex device_;
  std::vector<c10::cuda::CUDAStream> streams_;  ///< by lane
  std::vector<c10::cuda::CUDAStream> reads_;    ///< one
  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>();
  std::deque<Issued> issued_;  ///< of the longest step so far; its events are used again
  std::size_t n_issued_ = 0;
  std::array<bool, n_lanes> begun_{};  ///< by lane: memory was taken for the next op
  CudaEvent anchor_, fence_;
  WallTime anchored_;
};

}  // namespace

std::unique_ptr<Device> cuda_device(int index) {
  return std::make_unique<CudaDevice>(static_cast<c10::DeviceIndex>(index));
}

}  // namespace xt

#include "executor/cuda/cuda_streams.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "executor/cuda/events.h"
#include "executor/cuda/nccl.h"

namespace xt {
namespace {

class CudaStreams final : public Streams {
 public:
  // Exchanges and copies come first where they meet compute.
  explicit CudaStreams(c10::DeviceIndex device) : device_(device) {
    c10::cuda::set_device(device);
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      streams_.push_back(
          c10::cuda::getStreamFromPool(static_cast<Lane>(lane) != Lane::compute, device));
    reads_.push_back(c10::cuda::getStreamFromPool(true, device));
  }

  [[nodiscard]] c10::Device place(Space space) const override {
    return space == Space::device ? c10::Device(c10::kCUDA, device_) : c10::Device(c10::kCPU);
  }

  c10::DataPtr allocate(Space space, Lane lane, std::size_t bytes) override {
    if (space != Space::device) return at::getHostAllocator(at::kCUDA)->allocate(bytes);
    const c10::cuda::CUDAStreamGuard guard(stream(lane));
    return c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
  }

  void clear(void* memory, Space space, std::size_t bytes) override {
    if (space == Space::device)
      C10_CUDA_CHECK(cudaMemset(memory, 0, bytes));
    else
      std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{});
  }

  // The allocator's peak has what kernels take beside buffers.
  void complete(MemoryUsage& usage) const override {
    const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_);
    SpaceUsage& device = usage.spaces[static_cast<std::size_t>(Space::device)];
    const Bytes peak(std::max(device.peak.value, stats.requested_bytes[all].peak));
    device.by_category_at_peak[static_cast<std::size_t>(MemoryCategory::workspace)] +=
        peak - device.peak;
    device.peak = peak;
    usage.reserved = Bytes(stats.reserved_bytes[all].current);
    std::size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    usage.beside = Bytes(static_cast<std::int64_t>(total - free)) - usage.reserved;
  }
  void reset_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(device_); }

  [[nodiscard]] bool calls_at_once() const override { return true; }

  void run(Lane lane, const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamGuard guard(stream(lane));
    work();
  }

  void record(Event event, Lane lane) override {
    while (events_.size() <= event) events_.emplace_back();
    events_[event].record(stream(lane));
  }
  void hold_back(Lane lane, Event event) override { events_[event].hold_back(stream(lane)); }
  // What has ended may have been aborted for want of a peer.
  void wait(Event event) override {
    events_[event].wait();
    check_peers();
  }
  void wait_all() override {
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    check_peers();
  }
  [[nodiscard]] std::chrono::nanoseconds between(Event earlier, Event later) const override {
    return events_[later].since(events_[earlier]);
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
    check_peers();
    return host;
  }

  std::unique_ptr<Network> network(Rendezvous& rendezvous) override {
    watch_ = std::make_shared<PeerWatch>(rendezvous);
    return nccl_network(rendezvous, device_, watch_);
  }

 private:
  void check_peers() const {
    if (watch_) watch_->check();
  }
  const c10::cuda::CUDAStream& stream(Lane lane) const {
    return streams_[static_cast<std::size_t>(lane)];
  }

  c10::DeviceIndex device_;
  std::vector<c10::cuda::CUDAStream> streams_;  ///< by lane
  std::vector<c10::cuda::CUDAStream> reads_;    ///< one
  std::deque<CudaEvent> events_;                ///< of the longest step so far, used again
  std::shared_ptr<PeerWatch> watch_;            ///< of all groups, where there is a network
};

}  // namespace

std::unique_ptr<Streams> cuda_streams(int index) {
  return std::make_unique<CudaStreams>(static_cast<c10::DeviceIndex>(index));
}

}  // namespace xt

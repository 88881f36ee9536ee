#pragma once

// Events of the CUDA runtime that keep time. Private to cuda/.

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <utility>

namespace xt {

/// A point in the order of a stream.
class CudaEvent {
 public:
  CudaEvent() { C10_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~CudaEvent() {
    if (event_ != nullptr) C10_CUDA_CHECK_WARN(cudaEventDestroy(event_));
  }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  CudaEvent& operator=(CudaEvent&&) = delete;

  /// Makes it the end of what `stream` has been given so far.
  void record(cudaStream_t stream) { C10_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  /// Has what `stream` is given from here on wait for it.
  void hold_back(cudaStream_t stream) const {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  /// Returns when it is reached.
  void wait() const { C10_CUDA_CHECK(cudaEventSynchronize(event_)); }
  /// Time since `earlier`; both are reached. The runtime counts in half microseconds.
  [[nodiscard]] std::chrono::nanoseconds since(const CudaEvent& earlier) const {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace xt

#pragma once

// What a rank measures on: a device and what computes on it, and how long calls take there.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/devices/device_choice.h"
#include "executor/kernels/kernel_table.h"
#include "executor/runtime/device.h"

namespace xt {

/// How to come by a device, and how it takes ops.
struct BenchDevice {
  std::function<std::unique_ptr<Device>()> make;
  KernelTable kernels{};
  bool is_asynchronous = false;  ///< ops run behind the thread that issues them
  /// What is copied on a lane before calls are timed, so that they wait there for each other and
  /// not for the thread that issues them; of an asynchronous device.
  std::int64_t plug_bytes = 0;
  /// As layers have them, and short beside the traffic that it is measured with.
  Work product{Kernel::matmul, DType::fp32, Group::none, {512, 256, 256}};
};

/// That of rank `local_rank` of `local_ranks` on this host.
///
/// Throws: InputError if there is none
BenchDevice bench_device(DeviceChoice choice, int local_rank, int local_ranks);

/// One device to measure on.
class Bench {
 public:
  using Call = std::function<void()>;

  explicit Bench(BenchDevice of);

  [[nodiscard]] const KernelTable& kernels() const { return of_.kernels; }
  [[nodiscard]] bool is_asynchronous() const { return of_.is_asynchronous; }
  [[nodiscard]] const Work& product() const { return of_.product; }
  /// Where tensors in device space lie.
  [[nodiscard]] c10::Device place() const { return device_->place(Space::device); }
  [[nodiscard]] Device& device() { return *device_; }
  /// The same device with queues of its own, for a schedule.
  [[nodiscard]] std::unique_ptr<Device> another() const { return of_.make(); }

  /// Seconds that each of `calls` took, made one behind the other: by this thread, or on `lane` of
  /// an asynchronous device, by its own clock and without what it takes to issue them.
  ///
  /// Throws: what a call throws
  std::vector<double> seconds(Lane lane, std::span<const Call> calls);

  /// Makes `call` as those that are timed are made, and returns when it has ended.
  void run(Lane lane, const Call& call) { (void)seconds(lane, {&call, 1}); }

  /// Calls on several lanes at once, in the order in which they are issued.
  struct LaneCall {
    Lane lane = Lane::compute;
    Call call;
  };

  /// When each of `calls` ran, all of them behind what fills the lanes.
  ///
  /// Assumes: the device is asynchronous
  std::vector<Span> spans(std::span<const LaneCall> calls);

 private:
  BenchDevice of_;
  std::unique_ptr<Device> device_;
  at::Tensor plug_from_, plug_to_;
};

}  // namespace xt

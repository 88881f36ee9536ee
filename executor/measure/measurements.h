#pragma once

// Everything that `measure` finds out, as plain numbers: what a profile is computed from.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/ir/kernel.h"
#include "costmodel/ir/work.h"
#include "costmodel/units/quantity.h"
#include "executor/measure/cases.h"
#include "executor/measure/samples.h"

namespace xt {

/// What was measured, and when.
struct MachineFacts {
  std::string processor;      ///< of the host, or the device of its own that each rank has
  std::string date;           ///< of the measurement, YYYY-MM-DD
  std::string torch_version;  ///< of the library that the executor links
  Bytes memory;               ///< of the whole host
  std::int64_t n_ranks = 1;
  std::int64_t threads_per_rank = 1;
  std::optional<Bytes> device_memory = {};  ///< of a rank's device; none where it is the host's
};

/// How long a kernel took, all ranks running it at once. Units: seconds
struct KernelTimes {
  KernelCases cases;
  Samples smallest;
  std::vector<Samples> points;  ///< in the order of cases.points
};

/// How long one message took. Units: seconds
struct MessageTimes {
  std::int64_t bytes = 0;  ///< of the whole message, as costmodel/cost counts them
  Samples times;
};

/// A collective over groups of some ranks, or a copy.
struct TrafficTimes {
  Kernel kernel = Kernel::all_gather;
  std::int64_t ranks = 1;
  MessageTimes smallest;
  std::vector<MessageTimes> points;  ///< bytes ascend
};

/// The share of compute that traffic holds while it runs, under the simulator's model.
struct HeldShare {
  Kernel kernel = Kernel::all_gather;
  Samples shares;
};

/// Host time beside the kernels themselves. Units: seconds
struct IssueTimes {
  Samples kernel;
  Samples collective;
  Samples copy;
  Samples synchronize;
};

/// All of it.
struct Measurements {
  MachineFacts machine;
  std::vector<KernelTimes> kernels;
  std::vector<MessageTimes> memory_copies;  ///< bytes read and written; bytes ascend
  std::vector<TrafficTimes> collectives;    ///< empty for a single rank
  TrafficTimes to_host;
  TrafficTimes to_device;
  std::vector<HeldShare> held;  ///< without collectives for a single rank
  IssueTimes issue;
  double reserved_over_allocated = 1;
};

}  // namespace xt

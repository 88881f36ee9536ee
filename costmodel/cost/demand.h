#pragma once

// What one piece of work asks of a machine: the time it waits, and for every resource the seconds
// it would keep that resource busy if it had it alone. Alone, an op takes latency + max(busy): the
// roofline. Beside others the resources are shared; that is the simulator's affair.

#include <array>
#include <cstdint>
#include <string_view>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/ir/work.h"
#include "costmodel/units/quantity.h"

namespace xt {

/// Parts of a machine that ops compete for. Up is from device to host.
enum class Resource : std::uint8_t {
  matrix,
  vector,
  hbm,
  scale_up,
  scale_out,
  host_link_up,
  host_link_down,
  host_memory,
  cpu_core
};

inline constexpr std::size_t n_resources = 9;
inline constexpr std::array<std::string_view, n_resources> resource_names = {
    "matrix",       "vector",         "hbm",         "scale_up", "scale_out",
    "host_link_up", "host_link_down", "host_memory", "cpu_core"};

/// Whether traffic takes a part of the resource from compute by its share in the profile.
constexpr bool is_compute(Resource resource) { return resource <= Resource::hbm; }

/// What one op asks of the machine.
struct Demand {
  Seconds latency;                          ///< from start to end whatever the size
  std::array<Seconds, n_resources> busy{};  ///< by Resource
  Seconds issue;                            ///< of the host thread that issues the op
  double holds = 0;                         ///< of the compute resources, while it runs, 0 to 1

  auto operator<=>(const Demand&) const = default;

  Seconds& on(Resource resource) { return busy[static_cast<std::size_t>(resource)]; }
  [[nodiscard]] Seconds on(Resource resource) const {
    return busy[static_cast<std::size_t>(resource)];
  }
};

/// The demand of `work` under `bindings`; `group` is the one that work.group names, and `clock`
/// that of products over that of short runs: slowest_clock().
///
/// Assumes: profile.peak(work.dtype) exists for matrix and attention kernels, and
///          covers(profile, group) for collectives; planning checks both
Demand demand(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile, double clock);

/// The same for a rank that waits for no other.
Demand demand(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile);

/// The time `demand` takes with nothing beside it: latency + max(busy).
///
/// Source:  Williams, Waterman, Patterson 2009, "Roofline", CACM 52(4)
Seconds alone(const Demand& demand);

/// The resource that bounds `demand`; the first of the largest.
Resource bound(const Demand& demand);

/// Flops that `work` counts for in MFU: products of matrices and the causal half of attention, a
/// backward pass being twice its forward pass. Zero for everything else.
///
///   matmul 2·m·n·k    grouped 2·R·n·k    attention 2·H·D·Σs², backward 4·H·D·Σs²
///
/// Assumes: the caller leaves out recomputed ops and the router
/// Source:  Megatron-LM, training/training.py, num_floating_point_operations; Korthikanti et al.
///          2022, arXiv 2205.05198, appendix A, with the causal half
Flops model_flops(const Work& work, const Bindings& bindings);

/// Flops that `work` executes on the matrix units; HFU sums them over all ops, recomputed or not.
///
///   as model_flops, but attention backward 5·H·D·Σs²: it computes the scores again
///
/// Source:  Dao 2023, "FlashAttention-2", arXiv 2307.08691, section 4.1 (backward 2.5 × forward)
Flops hardware_flops(const Work& work, const Bindings& bindings);

/// Bytes that `work` moves through device memory if each operand is touched once.
///
/// Assumes: nothing is found in a cache; collectives and copies count what they move
/// Source:  derived from the operands in ir/kernel.h; see the functions by class
Bytes memory_traffic(const Work& work, const Bindings& bindings);

}  // namespace xt

#pragma once

// What a rank holds in host memory beside what the device holds: what is swapped or offloaded, and
// the copy that a checkpoint is written from. A plan says how much that may be.

#include <filesystem>
#include <optional>

#include "costmodel/units/quantity.h"
#include "executor/runtime/allocator.h"
#include "executor/train/run_inputs.h"

namespace xt {

/// The copy of a rank's state that its checkpoints are written from.
Bytes snapshot_bytes(const Schedule& schedule);

/// Host memory that a rank of `schedule` takes at most, where all symbols are as assumed.
Bytes host_memory_needed(const Schedule& schedule, bool writes_checkpoints);

/// Of what `plan` allows, the part that a step may take; no limit if none.
std::optional<Bytes> swap_limit(const PlanFile& plan, const Schedule& schedule,
                                bool writes_checkpoints);

/// What is allocated in all spaces.
Bytes allocated_memory(const MemoryUsage& usage);

/// Physical memory of this process now.
///
/// Source: proc(5), /proc/pid/statm
Bytes resident_memory();

/// Throws: InputError, at the limit in the plan.json of `directory`, if a rank needs more than it
void check_host_memory(const ExecutablePlan& plan, const std::filesystem::path& directory,
                       bool writes_checkpoints);

}  // namespace xt

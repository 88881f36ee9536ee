#pragma once

// What a rank needs to run a schedule and keeps from one step to the next: memory, lanes, kernels
// and the groups it belongs to.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "costmodel/ir/schedule.h"
#include "executor/communicators/communicator.h"
#include "executor/kernels/kernel_table.h"
#include "executor/runtime/lanes.h"
#include "executor/runtime/tensors.h"

namespace xt {

/// One communicator per lane and group, because each lane's thread issues its own collectives.
using Communicators =
    std::array<std::array<std::unique_ptr<Communicator>, group_names.size()>, n_lanes>;

/// The lanes and groups of a schedule's collectives in order of first use; the same on all ranks.
std::vector<std::pair<Lane, Group>> traffic_groups(const Schedule& schedule);

/// The position of `rank` in its group of this shape.
std::int32_t index_in_group(const GroupShape& shape, std::int32_t rank);

/// What is known of a schedule before it runs.
struct IssuePlan {
  explicit IssuePlan(const Schedule& schedule);

  std::uint64_t schedule_digest = 0;
  std::size_t n_events = 0;                  ///< of a step
  std::vector<std::vector<BufferId>> begun;  ///< by op: transient buffers that it brings into being
  std::vector<bool> takes_pack;              ///< by section: it reads the tokens of a new pack
};

/// Lets this thread have no team of others.
void work_alone();

/// The state of one rank.
struct StepState {
  /// Assumes: `of` outlives the state; `groups` has a communicator for each of traffic_groups(of)
  StepState(const Schedule& of, const KernelTable& table, Communicators groups)
      : schedule(of),
        plan(of),
        memory(of),
        kernels(table),
        communicators(std::move(groups)),
        bindings(assumed_bindings(of)),
        lanes(work_alone) {}

  const Schedule& schedule;
  IssuePlan plan;
  BufferMemory memory;
  KernelTable kernels;
  Communicators communicators;
  Bindings bindings;  ///< of the micro-step that runs, or ran last
  Lanes lanes;        ///< last, so that no lane runs when the rest goes
};

}  // namespace xt

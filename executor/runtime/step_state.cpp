#include "executor/runtime/step_state.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>

namespace xt {
namespace {

/// Whether an op of `section` touches the buffer of the tokens.
bool reads_tokens(const Schedule& schedule, const Section& section) {
  if (schedule.batch.tokens == no_buffer) return false;
  for (std::size_t i = at(section.begin); i < at(section.end); ++i)
    for (const BufferId id : schedule.inputs(schedule.ops[i]))
      if (storage(schedule, id) == schedule.batch.tokens) return true;
  return false;
}

}  // namespace

std::vector<std::pair<Lane, Group>> traffic_groups(const Schedule& schedule) {
  std::vector<std::pair<Lane, Group>> groups;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (kernel_class(work.kernel) != KernelClass::collective) continue;
    const std::pair<Lane, Group> group{op.lane, work.group};
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

std::int32_t index_in_group(const GroupShape& shape, std::int32_t rank) {
  return rank / shape.stride % shape.size;
}

// Teams that together have more threads than there are cores sleep between their loops, and waking
// them takes longer than most loops of attention.
void work_alone() {
  at::get_num_threads();  // ATen sets a thread's number when first asked, and not again
  omp_set_num_threads(1);
}

IssuePlan::IssuePlan(const Schedule& schedule)
    : schedule_digest(digest(schedule)), begun(schedule.ops.size()) {
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.kind == BufferKind::transient)
      begun[at(buffer.first_op)].push_back(static_cast<BufferId>(i));
  }
  for (const Section& section : schedule.sections) {
    n_events += (at(section.end) - at(section.begin)) * static_cast<std::size_t>(section.repeat);
    takes_pack.push_back(reads_tokens(schedule, section));
  }
}

}  // namespace xt

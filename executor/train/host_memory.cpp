#include "executor/train/host_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/json_document.h"
#include "costmodel/ir/memory.h"
#include "costmodel/units/format.h"

namespace xt {

Bytes snapshot_bytes(const Schedule& schedule) {
  Bytes bytes;
  for (const Flat& flat : schedule.flats)
    for (const BufferId id : {flat.parameter, flat.exp_avg, flat.exp_avg_sq})
      if (id != no_buffer) bytes += schedule.buffer(id).bytes({});
  return bytes;
}

Bytes host_memory_needed(const Schedule& schedule, bool writes_checkpoints) {
  const Bytes step = memory_peak(schedule, assumed_bindings(schedule), Space::host).peak;
  return writes_checkpoints ? step + snapshot_bytes(schedule) : step;
}

std::optional<Bytes> swap_limit(const PlanFile& plan, const Schedule& schedule,
                                bool writes_checkpoints) {
  if (!plan.host_memory_bytes) return std::nullopt;
  const Bytes all(*plan.host_memory_bytes);
  return writes_checkpoints ? std::max(Bytes(0), all - snapshot_bytes(schedule)) : all;
}

Bytes allocated_memory(const MemoryUsage& usage) {
  Bytes bytes;
  for (const SpaceUsage& space : usage.spaces) bytes += space.current;
  return bytes;
}

Bytes resident_memory() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return Bytes(resident * std::int64_t{sysconf(_SC_PAGE_SIZE)});
}

void check_host_memory(const ExecutablePlan& plan, const std::filesystem::path& directory,
                       bool writes_checkpoints) {
  if (!plan.plan.host_memory_bytes) return;
  const Bytes limit(*plan.plan.host_memory_bytes);
  const Bytes need = host_memory_needed(plan.schedule, writes_checkpoints);
  if (need <= limit) return;
  const Document document = read_json(directory / plan_file_name);
  const Mark mark = find(document.root, "host_memory_bytes")->mark;
  const Bytes copies = writes_checkpoints ? snapshot_bytes(plan.schedule) : Bytes(0);
  throw InputError(
      {{Severity::error,
        {document.source.path, mark.line, mark.column, mark.length},
        fmt::format("a rank may hold {} in host memory and needs {}: {} of a step and {} that a "
                    "checkpoint is written from",
                    format(limit), format(need), format(need - copies), format(copies)),
        "plan with fewer swapped layers (`--swap`), with `--swap-optimizer false`, or for a "
        "machine with more host memory"}},
      {document.source});
}

}  // namespace xt

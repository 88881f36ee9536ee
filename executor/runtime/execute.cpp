#include "executor/runtime/execute.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "executor/runtime/allocator.h"
#include "executor/runtime/collectives.h"
#include "executor/runtime/out_of_memory.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

MemoryPeak measured_peak(const SpaceUsage& usage) {
  return {usage.peak, no_op, usage.by_category_at_peak};
}

/// An op that is ready to run on any thread.
struct Call {
  const Op& op;
  const Work& work;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
};

// Shared with the tasks of its lanes: after a failure they may outlive the call of execute().
class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  StepRun(StepState& state, StepRequest request)
      : state_(state),
        schedule_(state.schedule),
        request_(std::move(request)),
        issued_(schedule_.ops.size(), 0),
        spans_(state.plan.n_events) {
    timeline_.events.reserve(state.plan.n_events);
  }

  StepResult run() {
    state_.device->begin_step();
    state_.device->reset_peak();
    const WallTime began = steady_clock::now();
    for (std::size_t i = 0; i < schedule_.sections.size(); ++i)
      for (std::int32_t repeat = 0; repeat < schedule_.sections[i].repeat; ++repeat)
        run_section(i, repeat);
    state_.device->end_step();
    const WallTime ended = steady_clock::now();
    finish_timeline(began, ended);
    return {std::move(timeline_), began};
  }

 private:
  /// Runs `part` of op `id`; memory that is not to be had is missed by that op.
  template <typename Part>
  auto as_part_of(OpId id, const Part& part) const {
    try {
      return part();
    } catch (const OutOfMemory& error) {
      throw wanted_by(
          error, fmt::format("`{}` of step {}", op_name(schedule_, id), request_.constants.step));
    }
  }

  void run_section(std::size_t i, std::int32_t repeat) {
    const Section& section = schedule_.sections[i];
    if (state_.plan.takes_pack[i]) take_packs();
    for (std::size_t op = at(section.begin); op < at(section.end); ++op)
      issue(static_cast<OpId>(op), repeat);
    if (state_.plan.takes_pack[i]) timeline_.bindings.push_back(state_.bindings);
  }

  void take_packs() {
    const std::vector<PackFacts> facts = request_.load_packs(n_loads_++);
    state_.documents.clear();
    for (const PackFacts& of : facts) state_.documents.push_back(of.documents);
    for (std::size_t i = 0; i < schedule_.symbols.size(); ++i) {
      const Symbol& symbol = schedule_.symbols[i];
      const PackFacts& of = facts.at(static_cast<std::size_t>(symbol.micro_batch));
      switch (symbol.kind) {
        case SymbolKind::rows_received:
          break;
        case SymbolKind::sum_squared_lengths:
          state_.bindings[i] = of.sum_squared_lengths / symbol.parts;
          break;
        case SymbolKind::longest_sample:
          state_.bindings[i] = of.longest_sample;
          break;
        case SymbolKind::sample_tokens:
          state_.bindings[i] = of.sample_tokens;
          break;
      }
    }
  }

  void issue(OpId id, std::int32_t repeat) {
    const Op& op = schedule_.op(id);
    Span& span = spans_[timeline_.events.size()];
    timeline_.events.push_back({id, repeat, {}, {}});
    const auto ticket = static_cast<Ticket>(timeline_.events.size());
    issued_[at(id)] = ticket;
    as_part_of(id, [&] {
      for (const BufferId buffer : state_.plan.begun[at(id)])
        state_.memory.allocate(buffer, state_.bindings);
    });
    if (state_.device->runs_at_issue(op.lane)) {
      const auto run = [this, id] { return perform_watched(id, make_call(schedule_.op(id))); };
      state_.device->issue(op.lane, {ticket, needed(op), run, &span});
    } else {
      const auto run = [self = shared_from_this(), id, call = make_call(op)] {
        return self->perform_watched(id, call);
      };
      state_.device->issue(op.lane, {ticket, needed(op), run, &span});
    }
    if (op.n_ended > 0) end_buffers(op, ticket);
  }

  void end_buffers(const Op& op, Ticket ticket) {
    state_.device->before_release(op.lane, ticket);
    for (const BufferId buffer : schedule_.ended_by(op)) state_.memory.release(buffer);
  }

  Tickets needed(const Op& op) const {
    Tickets tickets{};
    for (const OpId id : schedule_.dependencies_of(op)) {
      Ticket& ticket = tickets[index(schedule_.op(id).lane)];
      ticket = std::max(ticket, issued_[at(id)]);
    }
    return tickets;
  }

  Call make_call(const Op& op) const {
    Call call{op, schedule_.work(op), {}, {}};
    const auto append = [&](std::vector<at::Tensor>& to, std::span<const BufferId> from) {
      to.reserve(from.size());
      for (const BufferId id : from) to.push_back(state_.memory.tensor(id, state_.bindings));
    };
    append(call.inputs, schedule_.inputs(op));
    append(call.outputs, schedule_.outputs(op));
    if (call.work.kernel == Kernel::all_to_all)
      for (const std::size_t counts : {1, 2})
        call.inputs[counts] = state_.device->on_host(call.inputs[counts]);
    return call;
  }

  // Of the pack that an op sees whose cost its data decides.
  std::int64_t documents_of(const Work& work) const {
    if (kernel_class(work.kernel) != KernelClass::attention || state_.documents.empty()) return 0;
    const Extent& squares = work.extents[4];
    const std::int16_t pack =
        squares.is_symbol() ? schedule_.symbols[at(squares.symbol())].micro_batch : 0;
    return state_.documents.at(static_cast<std::size_t>(pack));
  }

  WallTime perform_watched(OpId id, const Call& call) {
    StepActivity* const activity = request_.activity;
    if (activity == nullptr) return as_part_of(id, [&] { return perform(call); });
    std::atomic<OpId>& running = activity->running[index(call.op.lane)];
    running = id;
    ++activity->n_moves;
    const WallTime ended = as_part_of(id, [&] { return perform(call); });
    running = no_op;
    ++activity->n_moves;
    return ended;
  }

  WallTime perform(const Call& call) {
    if (const KernelFunction kernel = state_.kernels[static_cast<std::size_t>(call.work.kernel)]) {
      const AllocationScope scope(Space::device, MemoryCategory::workspace);
      kernel({call.work, state_.bindings, call.inputs, call.outputs, schedule_.constants,
              request_.constants, index_in_group(schedule_.group(call.work.group), request_.rank),
              documents_of(call.work)});
      return steady_clock::now();
    }
    switch (kernel_class(call.work.kernel)) {
      case KernelClass::collective:
        return run_collective(communicator(call), call.work.kernel, call.inputs, call.outputs);
      case KernelClass::copy:
        state_.device->copy(call.outputs[0], call.inputs[0]);
        return steady_clock::now();
      case KernelClass::host:
        if (call.work.kernel == Kernel::bind_rows) bind_rows(call);
        XT_CHECK(call.work.kernel != Kernel::adamw_on_host);
        return steady_clock::now();
      case KernelClass::matrix:
      case KernelClass::grouped_matrix:
      case KernelClass::attention:
      case KernelClass::memory_bound:
        break;
    }
    XT_CHECK(false, name(call.work.kernel));
  }

  Communicator& communicator(const Call& call) {
    const auto& groups = state_.communicators[index(call.op.lane)];
    const auto& found = groups[static_cast<std::size_t>(call.work.group)];
    XT_CHECK(found != nullptr, name(call.work.kernel));
    return *found;
  }

  void bind_rows(const Call& call) {
    const Extent rows = call.work.extents[0];
    if (!rows.is_symbol()) return;
    std::int64_t sum = 0;
    const at::Tensor counts = state_.device->on_host(call.inputs[0]);
    for (const std::int64_t count : rows_by_rank(counts, 1)) sum += count;
    state_.bindings[at(rows.symbol())] = sum;
  }

  void finish_timeline(WallTime began, WallTime ended) {
    const auto on_step_clock = [&](WallTime time) { return Instant(Duration(time - began)); };
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      timeline_.events[i].start = on_step_clock(spans_[i].start);
      timeline_.events[i].end = on_step_clock(spans_[i].end);
    }
    timeline_.schedule_digest = state_.plan.schedule_digest;
    timeline_.is_measured = true;
    timeline_.rank = request_.rank;
    timeline_.step = static_cast<std::int32_t>(request_.constants.step);
    timeline_.end = on_step_clock(ended);
    const MemoryUsage usage = state_.device->usage();
    timeline_.device_memory = measured_peak(usage.of(Space::device));
    timeline_.host_memory = measured_peak(usage.of(Space::host));
    std::vector<Bindings>& bindings = timeline_.bindings;
    if (bindings.empty()) bindings.push_back(state_.bindings);
    if (std::adjacent_find(bindings.begin(), bindings.end(), std::not_equal_to<>()) ==
        bindings.end())
      bindings.resize(1);
  }

  StepState& state_;
  const Schedule& schedule_;
  StepRequest request_;
  Timeline timeline_;
  std::vector<Ticket> issued_;  ///< by op: its latest ticket
  std::vector<Span> spans_;     ///< by event; lanes write into it
  std::int32_t n_loads_ = 0;
};

}  // namespace

StepResult execute(StepState& state, const StepRequest& request) {
  return std::make_shared<StepRun>(state, request)->run();
}

}  // namespace xt

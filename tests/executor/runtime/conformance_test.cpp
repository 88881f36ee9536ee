// The rules of schedules against the executor, with kernels that mix tags after a random delay.

#include "executor/runtime/execute.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "executor/runtime/allocator.h"
#include "tests/conformance/random_schedule.h"
#include "tests/conformance/rules.h"
#include "tests/executor/runtime/threaded_streams.h"

namespace xt {
namespace {

using testing::IsEmpty;
using Tags = std::vector<std::uint32_t>;

std::span<std::uint32_t> tags_of(const at::Tensor& tensor) {
  return {reinterpret_cast<std::uint32_t*>(tensor.mutable_data_ptr()),
          static_cast<std::size_t>(tensor.numel())};
}

void delay() {
  thread_local std::mt19937 random(std::random_device{}());
  if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 150));
}

/// Half of the delay lies between what is read and what is written.
void tag_kernel(const KernelCall& call) {
  const std::int64_t workspace = call.extent(4);
  const at::Tensor scratch = workspace > 0 ? at::zeros({workspace}, at::kFloat) : at::Tensor();
  delay();
  std::vector<std::span<const std::uint32_t>> inputs;
  std::vector<std::span<std::uint32_t>> outputs;
  for (const at::Tensor& tensor : call.inputs) inputs.push_back(tags_of(tensor));
  for (const at::Tensor& tensor : call.outputs) outputs.push_back(tags_of(tensor));
  mix_tags(static_cast<std::uint32_t>(call.extent(5)), inputs, outputs,
           is_in_place(call.work.kernel));
  delay();
}

void count_kernel(const KernelCall& call) {
  *call.outputs[0].mutable_data_ptr<std::int64_t>() = bound_rows;
  delay();
  if (call.extent(4) > 0) (void)at::empty({call.extent(4)}, at::kFloat);
}

KernelTable tag_kernels() {
  KernelTable table{};
  for (const KernelRow& kernel : kernel_rows)
    if (kernel.kernel_class != KernelClass::host)
      table[static_cast<std::size_t>(kernel.kernel)] = tag_kernel;
  table[static_cast<std::size_t>(Kernel::sort_rows)] = count_kernel;
  return table;
}

/// What the residents hold after the ops ran one by one, in order, each buffer on its own.
class Reference {
 public:
  explicit Reference(const Schedule& schedule)
      : schedule_(schedule), bindings_{bound_rows}, memory_(schedule.buffers.size()) {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      memory_[i].resize(static_cast<std::size_t>(schedule.buffers[i].elements(bindings_)));
    for (const Section& section : schedule.sections)
      for (std::int32_t repeat = 0; repeat < section.repeat; ++repeat)
        for (std::size_t i = at(section.begin); i < at(section.end); ++i) run(schedule.ops[i]);
  }

  const Tags& of(BufferId id) const { return memory_[at(id)]; }

 private:
  std::span<std::uint32_t> elements(BufferId id) {
    const auto n = static_cast<std::size_t>(schedule_.buffer(id).elements(bindings_));
    std::size_t first = 0;
    for (; schedule_.buffer(id).kind == BufferKind::view; id = schedule_.buffer(id).parent)
      first += static_cast<std::size_t>(schedule_.buffer(id).offset_bytes / 4);
    return std::span(memory_[at(id)]).subspan(first, n);
  }

  void run(const Op& op) {
    const Work& work = schedule_.work(op);
    if (op.lane == Lane::host || work.kernel == Kernel::sort_rows) return;
    std::vector<std::span<const std::uint32_t>> inputs;
    std::vector<std::span<std::uint32_t>> outputs;
    for (const BufferId id : schedule_.inputs(op)) inputs.push_back(elements(id));
    for (const BufferId id : schedule_.outputs(op)) outputs.push_back(elements(id));
    mix_tags(static_cast<std::uint32_t>(work.extents[5].code), inputs, outputs,
             is_in_place(work.kernel));
  }

  const Schedule& schedule_;
  Bindings bindings_;
  std::vector<Tags> memory_;
};

class ExecutedSchedules : public testing::TestWithParam<std::uint64_t> {
 protected:
  const Schedule schedule_ = random_schedule(GetParam());
  const MemoryUsage before_ = memory_usage();
  StepState state_{schedule_, tag_kernels(), {}};
  StepResult result_ = execute(state_, {});
};

TEST_P(ExecutedSchedules, KeepTheRules) {
  EXPECT_THAT(broken_rules(schedule_, result_.timeline), IsEmpty());
}

void expect_what_ops_in_order_leave(const Schedule& schedule, const StepState& state) {
  const Reference reference(schedule);
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const auto id = static_cast<BufferId>(i);
    if (schedule.buffer(id).kind != BufferKind::resident ||
        schedule.buffer(id).dtype != DType::int32)
      continue;
    const auto found = tags_of(state.memory.tensor(id));
    EXPECT_EQ(Tags(found.begin(), found.end()), reference.of(id)) << "buffer " << i;
  }
}

TEST_P(ExecutedSchedules, LeaveBehindWhatTheirOpsInOrderWould) {
  expect_what_ops_in_order_leave(schedule_, state_);
}

TEST_P(ExecutedSchedules, TakeTheMemoryOfTheCurveToTheByte) {
  EXPECT_EQ(result_.timeline.bindings, (std::vector<Bindings>{{bound_rows}}));
  for (const Space space : {Space::device, Space::host}) {
    const MemoryPeak expected = memory_peak(schedule_, {bound_rows}, space);
    const MemoryPeak& found =
        space == Space::device ? result_.timeline.device_memory : result_.timeline.host_memory;
    EXPECT_EQ(found.peak - before_.of(space).current, expected.peak);
    for (std::size_t c = 0; c < n_memory_categories; ++c)
      EXPECT_EQ(found.by_category[c] - before_.of(space).by_category[c], expected.by_category[c])
          << memory_category_names[c];
  }
}

TEST_P(ExecutedSchedules, GiveAllTransientMemoryBack) {
  const MemoryUsage after_first = memory_usage();
  execute(state_, {});
  EXPECT_EQ(memory_usage().n_live, after_first.n_live);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecutedSchedules, testing::Range<std::uint64_t>(1, 41));

// The same on streams, where the issuing thread runs ahead and memory is used again in their order.
class StreamedSchedules : public testing::TestWithParam<std::uint64_t> {
 protected:
  const Schedule schedule_ = random_schedule(GetParam());
  StepState state_{schedule_, tag_kernels(), {}, stream_device(threaded_streams())};
};

TEST_P(StreamedSchedules, KeepTheRulesAndLeaveBehindWhatTheirOpsInOrderWould) {
  const StepResult result = execute(state_, {});
  EXPECT_THAT(broken_rules(schedule_, result.timeline), IsEmpty());
  EXPECT_EQ(result.timeline.bindings, (std::vector<Bindings>{{bound_rows}}));
  expect_what_ops_in_order_leave(schedule_, state_);
  const std::int64_t n_live = state_.device->usage().n_live;
  execute(state_, {});
  EXPECT_EQ(state_.device->usage().n_live, n_live);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamedSchedules, testing::Range<std::uint64_t>(1, 41));

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  xt::install_allocator();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

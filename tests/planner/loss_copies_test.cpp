// How many copies of logits frameworks hold at the peak of a loss that is not chunked.

#include <gtest/gtest.h>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t tokens = 32768;

Schedule schedule_of(std::string_view engine, const Flags& more = {}) {
  const Plan plan = test::plan_of(test::with({{"model", "qwen3_8b"},
                                              {"machine", "h100_sxm"},
                                              {"devices", "8"},
                                              {"engine", std::string(engine)},
                                              {"pack_length", std::to_string(tokens)},
                                              {"loss_chunk", "none"}},
                                             more));
  return lower(graph_of(plan), plan.strategy);
}

// Bytes of logits and their kind, for each logit of a rank, where there are most.
double copies(const Schedule& schedule, std::int64_t ranks = 1) {
  const MemoryPeak peak =
      memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss);
  const auto of = [&](MemoryCategory category) {
    return peak.by_category[static_cast<std::size_t>(category)].value;
  };
  const std::int64_t bytes = of(MemoryCategory::logits_and_loss) + of(MemoryCategory::workspace);
  return static_cast<double>(bytes * ranks) / static_cast<double>(tokens * 151936);
}

// Hidden states and their gradients are a few per cent of them.
constexpr double little = 0.3;

TEST(LossCopies, OfPyTorchAreLogitsTheirSoftmaxAndGradientInFp32) {
  EXPECT_NEAR(copies(schedule_of("torchtitan")), 3 * 4, little);
}

TEST(LossCopies, OfACompiledLossAreLogitsAndGradientIn16Bits) {
  EXPECT_NEAR(copies(schedule_of("torchtitan", {{"compile_loss", "true"}})), 2 * 2, little);
}

// Transformer Engine's kernel leaves gradients where logits were; a quarter of as many bytes stand
// in for the gradient of lm_head.
TEST(LossCopies, OfTransformerEngineAreLogitsIn16BitsAlone) {
  const double stand_in = 2 * 4096.0 / tokens;
  for (const std::int64_t ranks : {1, 4}) {
    const Flags flags = {{"recompute", "all"}, {"tensor_parallel", std::to_string(ranks)}};
    const Flags fused = test::with(flags, {{"compile_loss", "true"}});
    EXPECT_NEAR(copies(schedule_of("megatron", fused), ranks), 2 + stand_in, 2 * little);
    EXPECT_NEAR(copies(schedule_of("megatron", flags), ranks), 2 + 4, 2 * little);
  }
}

TEST(LossCopies, OfATracedGraphAreExponentialsToo) {
  EXPECT_NEAR(copies(schedule_of("simple_fsdp")), 4 * 4, little);
}

TEST(LossCopies, OfAGraphThatIsCompiledWithItsLossAreLogitsAndGradientInFp32) {
  EXPECT_NEAR(copies(schedule_of("simple_fsdp", {{"compile_loss", "true"}})), 2 * 4, little);
}

// Beside what a script holds of the model's output, which has the last token too.
TEST(LossCopies, OfAModelWhoseLogitsAreHeldAreOneMore) {
  EXPECT_NEAR(copies(schedule_of("fsdp1_autocast")), 4 * 4, little);
}

// Of a chunk's logits there is one copy in 16 bits; what it adds to lm_head's gradient is there in
// 16 bits and in 32.
TEST(LossCopies, OfLigerAreAChunksLogitsAndItsProductTwice) {
  constexpr std::int64_t rows = 1024, hidden = 4096;
  const double product = (2.0 + 4.0) * hidden / tokens;
  for (const char* engine : {"accelerate", "deepspeed"}) {
    const Schedule schedule =
        schedule_of(engine, {{"compile_loss", "true"}, {"loss_chunk", std::to_string(rows)}});
    EXPECT_NEAR(copies(schedule), product + 2.0 * rows / tokens, 0.15) << engine;
  }
}

TEST(LossCopies, OverTensorRanksAreThatEverywhere) {
  const Flags tensor = {{"tensor_parallel", "2"}};
  EXPECT_NEAR(copies(schedule_of("torchtitan", tensor), 2), 4 * 4, 2 * little);
  EXPECT_NEAR(copies(schedule_of("simple_fsdp", tensor), 2), 4 * 4, 2 * little);
}

// Bytes that pass through memory for each logit of a rank, in kernels of no product.
double passes(const Schedule& schedule) {
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    const bool is_pass = work.kernel == Kernel::cast || work.kernel == Kernel::cross_entropy;
    if (is_pass && schedule.parts[op.origin.part] == "lm_head")
      bytes += static_cast<double>(memory_traffic(work, {}).value);
  }
  return bytes / static_cast<double>(tokens * 151936);
}

// Logits are widened and gradients narrowed, 6 bytes each. Between stand 3 passes in fp32 where
// the loss is fused, 4 reads and writes of log-softmax, 5 of its gradient and 1 of zeros elsewhere.
TEST(LossCopies, AreReadAndWrittenTenTimesWhereTheLossIsNotFused) {
  for (const char* engine : {"torchtitan", "accelerate", "deepspeed", "mindspeed"})
    EXPECT_NEAR(passes(schedule_of(engine)), 2 * 6 + (4 + 5 + 1) * 4, 0.01) << engine;
  for (const char* engine : {"simple_fsdp", "megatron"})
    EXPECT_NEAR(passes(schedule_of(engine)), 2 * 6 + 3 * 4, 0.01) << engine;
  EXPECT_NEAR(passes(schedule_of("accelerate", {{"loss_chunk", "1024"}})), 2 * 6 + 3 * 4, 0.01);
}

// 16-bit logits take room that nothing of fp32 can have when they are gone.
TEST(LossCopies, OfAccelerateHoldTheRoomOfLogitsApart) {
  const auto held = [](std::string_view engine) {
    const Schedule schedule = schedule_of(engine, {{"reduce_dtype", "bf16"}});
    return pooled_peak(schedule, assumed_bindings(schedule), Space::device);
  };
  EXPECT_EQ(held("accelerate") - held("torchtitan"), Bytes(tokens * 151936 * 2));
}

}  // namespace
}  // namespace xt

// What frameworks send after an update, copy before a reduction and run beside products.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "costmodel/cost/demand.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

// Elements of the broadcasts of a step, the largest first.
std::vector<std::int64_t> messages(const char* ranks) {
  const Plan plan = test::plan_on_16_h100({{"engine", "internevo"}, {"devices", ranks}});
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  std::vector<std::int64_t> elements;
  for (const Op& op : schedule.ops)
    if (schedule.work(op).kernel == Kernel::broadcast)
      elements.push_back(schedule.work(op).extents[0].code);
  std::ranges::sort(elements, std::greater());
  return elements;
}

// Qwen3-8B has 36 layers of 11 parameters, an embedding, a last norm and a head. Two ranks get
// halves that differ by at most the smallest matrix, of keys.
TEST(InternEvo, EveryRankSendsTheParametersThatItUpdates) {
  const std::vector<std::int64_t> halves = messages("2"), all = messages("512");
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_LE(halves[0] - halves[1], 4096 * 1024);
  EXPECT_EQ(messages("64").size(), 64u);
  EXPECT_EQ(all.size(), 36u * 11 + 3);
  EXPECT_EQ(all.front(), 151936 * 4096);
  EXPECT_EQ(all.back(), 128);  // the norm of a head
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::int64_t{0}), halves[0] + halves[1]);
}

// 11 numbers of each logit in fp32 pass through memory: 8 that are read and 3 that are written, of
// which one is a copy.
TEST(InternEvo, LogitsAreScoredBeforeTheirLoss) {
  const Plan plan = test::plan_on_16_h100({{"engine", "internevo"}, {"pack_length", "4096"}});
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  double bytes = 0;
  for (const Op& op : schedule.ops)
    if (schedule.parts[op.origin.part] == "metrics")
      bytes += static_cast<double>(memory_traffic(schedule.work(op), {}).value);
  EXPECT_EQ(bytes, 11 * 4 * 4096.0 * 151936);
}

// Bytes that `part` of a step passes through memory, by parameter of the model.
double passed(const Plan& plan, std::string_view part) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  double bytes = 0;
  for (const Op& op : schedule.ops)
    if (schedule.parts[op.origin.part] == part && op.origin.phase != Phase::optimizer)
      bytes += static_cast<double>(memory_traffic(schedule.work(op), {}).value);
  return bytes / static_cast<double>(count_parameters(graph, 1));
}

// Bytes of all gathers of a micro-step, by parameter of the model.
double gathered(const Plan& plan) {
  const OpGraph graph = graph_of(plan);
  const Schedule schedule = lower(graph, plan.strategy);
  double bytes = 0;
  for (const Op& op : schedule.ops) {
    const Work& work = schedule.work(op);
    if (work.kernel == Kernel::all_gather)
      bytes += static_cast<double>(work.extents[0].code * width(work.dtype));
  }
  return bytes / static_cast<double>(count_parameters(graph, 1));
}

// 16-bit gradients are read and written for a bucket, for the order of ranks and for their mean,
// weights after each gather.
TEST(DeepSpeed, AtStage3GradientsAreCopiedThreeTimesAndWeightsPutTogether) {
  const Plan split = test::plan_on_16_h100({{"engine", "deepspeed"}, {"zero", "3"}});
  EXPECT_NEAR(passed(split, "copy_in"), 3 * 4, 1e-2);
  EXPECT_NEAR(passed(split, "copy_out"), 2 * gathered(split), 1e-2);
  EXPECT_GT(passed(split, "copy_out"), 7);
  const Plan whole = test::plan_on_16_h100({{"engine", "deepspeed"}, {"zero", "2"}});
  EXPECT_EQ(passed(whole, "copy_out"), 0);
  EXPECT_LE(passed(whole, "copy_in"), 4);
}

// Gathers and reductions of an optimizer that is split stand between products, as do exchanges of
// tensor parallel ranks.
TEST(MindFormers, NothingRunsBesideProducts) {
  for (const char* ranks : {"1", "2"}) {
    const Plan plan =
        test::plan_on_16_h100({{"engine", "mindformers"}, {"tensor_parallel", ranks}});
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    for (const Op& op : schedule.ops)
      EXPECT_TRUE(op.lane == Lane::compute || op.lane == Lane::host)
          << schedule.parts[op.origin.part];
  }
}

// Every piece that a rank passes on runs beside the product of the one before.
TEST(MindSpeed, ExchangesInPiecesHideBehindProducts) {
  const auto exposed = [](const char* in_pieces) {
    const Plan plan = test::plan_on_16_h100({{"engine", "mindspeed"},
                                             {"machine", "ascend_910b"},
                                             {"tensor_parallel", "8"},
                                             {"pack_length", "32768"},
                                             {"tensor_parallel_overlap", in_pieces}});
    const StepAccount account = estimate(plan).account;
    double seconds = 0;
    for (const Traffic kind : {Traffic::all_gather, Traffic::reduce_scatter, Traffic::all_to_all})
      seconds += account.traffic[static_cast<std::size_t>(kind)].exposed.value;
    return seconds;
  };
  EXPECT_LT(exposed("true"), exposed("false") * 2 / 3);
}

// Three pieces at once, as Transformer Engine runs them on its streams.
TEST(Megatron, PiecesThatRunAtOnceFillTheDeviceAsOneProduct) {
  const Plan plan = test::plan_on_16_h100({{"engine", "megatron"}});
  const auto seconds = [&](std::int64_t rows, std::int64_t beside) {
    const Work product{Kernel::matmul, DType::bf16, Group::none, {rows, 4096, 4096, beside}};
    return demand(product, {}, {1, 1}, plan.profile).on(Resource::matrix).value;
  };
  EXPECT_DOUBLE_EQ(3 * seconds(512, 3), seconds(3 * 512, 0));
  EXPECT_GT(3 * seconds(512, 0), 1.02 * seconds(3 * 512, 0));
  EXPECT_DOUBLE_EQ(seconds(512, 1), seconds(512, 0));
}

}  // namespace
}  // namespace xt

// Muon in closed form: its state, its products, what it moves.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/verify.h"
#include "planner/estimate/estimate.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

Estimate estimate_of(const Flags& more) {
  const Flags flags = {
      {"machine", "h800_sxm"}, {"engine", "xtuner_v1"}, {"devices", "8"}, {"loss_chunk", "1024"}};
  return estimate(test::plan_of(test::with(flags, more)));
}

Estimate muon(Flags flags) {
  flags.emplace_back("optimizer", "muon");
  return estimate_of(flags);
}

// Matrices of one shape in a model.
struct Shape {
  std::int64_t rows, columns, count;

  double elements() const { return static_cast<double>(rows * columns); }
  // Source: Jordan et al. 2024, "Muon": five times X·Xᵀ, its square, and their product with X
  double flops() const {
    const auto s = static_cast<double>(std::min(rows, columns));
    const auto l = static_cast<double>(std::max(rows, columns));
    return 5 * (4 * s * s * l + 2 * s * s * s);
  }
};

// Qwen3-8B: q and o; k and v; gate and up; down.
const std::vector<Shape> dense = {
    {4096, 4096, 72}, {1024, 4096, 72}, {12288, 4096, 72}, {4096, 12288, 36}};
constexpr std::int64_t ranks = 8;

double optimizer_bytes(const Estimate& answer) {
  double bytes = 0;
  for (const Buffer& buffer : answer.schedule.buffers)
    if (buffer.kind == BufferKind::resident && buffer.category == MemoryCategory::optimizer)
      bytes += static_cast<double>(buffer.bytes({}).value);
  return bytes;
}

// Source: XTuner V1, config/optim.py: momentum for matrices of layers, two moments for the rest
TEST(Muon, KeepsFourBytesOfMatricesAndEightOfTheRest) {
  double of_muon = 0;
  for (const Shape& shape : dense) of_muon += shape.elements() * static_cast<double>(shape.count);
  const double all = 8'190'735'360;
  EXPECT_NEAR(optimizer_bytes(muon({{"model", "qwen3_8b"}})) /
                  ((4 * of_muon + 8 * (all - of_muon)) / ranks),
              1, 1e-3);
}

TEST(Muon, ARankOrthogonalisesOneMatrixOfEachBatch) {
  double expected = 0;
  for (const Shape& shape : dense)
    expected += static_cast<double>((shape.count + ranks - 1) / ranks) * shape.flops();
  const Estimate answer = muon({{"model", "qwen3_8b"}});
  const Estimate adamw = estimate_of({{"model", "qwen3_8b"}});
  EXPECT_NEAR((answer.hardware_flops - adamw.hardware_flops).value / expected, 1, 1e-9);
  EXPECT_EQ(answer.model_flops, adamw.model_flops);
}

// Bytes of the messages of `kernel` in the update.
double moved(const Estimate& answer, Kernel kernel) {
  double bytes = 0;
  for (const Op& op : answer.schedule.ops) {
    const Work& work = answer.schedule.work(op);
    if (op.origin.phase == Phase::optimizer && work.kernel == kernel && work.dtype == DType::bf16)
      bytes += static_cast<double>(memory_traffic(work, {}).value);
  }
  return bytes;
}

// Source: XTuner V1, optim/muon.py: a batch of as many matrices as ranks goes there and back by
// all-to-all, the rest of a shape by all-gather and reduce-scatter, in bf16
TEST(Muon, ExchangesWholeBatchesAndGathersTheRest) {
  double exchanged = 0, gathered = 0;
  for (const Shape& shape : dense) {
    exchanged += 2 * static_cast<double>(shape.count / ranks) * 2 * shape.elements();
    gathered += static_cast<double>(shape.count % ranks) * 2 * shape.elements();
  }
  const Estimate answer = muon({{"model", "qwen3_8b"}});
  EXPECT_NEAR(moved(answer, Kernel::all_to_all) / exchanged, 1, 1e-9);
  EXPECT_NEAR(moved(answer, Kernel::all_gather) / gathered, 1, 1e-9);
  EXPECT_NEAR(moved(answer, Kernel::reduce_scatter) / gathered, 1, 1e-9);
}

double flops_of_experts(const Estimate& answer) {
  double flops = 0;
  for (const Op& op : answer.schedule.ops) {
    const Work& work = answer.schedule.work(op);
    if (op.origin.phase == Phase::optimizer && work.kernel == Kernel::grouped_matmul)
      flops += hardware_flops(work, {}).value;
  }
  return flops;
}

// 128 experts of three 768 by 2048 matrices in 48 layers. Over 8 ranks each has whole ones; over
// 512 four ranks share each of the last, and two each of the first two, and orthogonalise it all.
TEST(Muon, ExpertsStayWhereTheyAreOrMeetWhereFewRanksShareOne) {
  const Shape expert{768, 2048, 1};
  const Estimate few = muon({{"model", "qwen3_30b_a3b"}});
  EXPECT_NEAR(flops_of_experts(few) / (48 * 3 * 128 / 8 * expert.flops()), 1, 1e-9);
  const Estimate many = muon({{"model", "qwen3_30b_a3b"}, {"devices", "512"}});
  EXPECT_EQ(many.schedule.group(Group::up_matrix), (GroupShape{2, 1}));
  EXPECT_EQ(many.schedule.group(Group::down_matrix), (GroupShape{4, 1}));
  double gathered = 0;
  for (const Op& op : many.schedule.ops) {
    const Work& work = many.schedule.work(op);
    if (work.group == Group::up_matrix || work.group == Group::down_matrix)
      gathered += static_cast<double>(work.extents[0].code);
  }
  EXPECT_EQ(gathered, 48 * 2 * expert.elements());
}

TEST(Muon, TakesLongerThanAdamWAndHidesExchangesBehindProducts) {
  const Estimate answer = muon({{"model", "qwen3_8b"}});
  EXPECT_GT(answer.account.step, estimate_of({{"model", "qwen3_8b"}}).account.step);
  EXPECT_EQ(verify(answer.schedule), std::vector<std::string>{});
  const auto& exchanges = answer.account.traffic[static_cast<std::size_t>(Traffic::all_to_all)];
  EXPECT_GT(exchanges.overlapped_ratio(), 0.5);
}

}  // namespace
}  // namespace xt

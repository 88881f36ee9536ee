#include "costmodel/cost/demand.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/costmodel/cost/round_machine.h"

namespace xt {
namespace {

using test::constant;
using test::priced;
using test::rate;
using test::round_machine;
using test::sourced;
using test::work;

// Of two draws the largest is 0.564 deviations above the mean, by Blom's approximation 0.589.
TEST(Peers, ProductsRunAtTheClockOfTheSlowest) {
  Profile machine = round_machine();
  machine.sustained_clock = sourced(0.8);
  machine.clock_spread = sourced(0.1);
  const auto of = [&](Kernel kernel, std::int64_t peers) {
    return demand(work(kernel, DType::bf16, {4096, 4096, 4096, 1, 1}), {}, {}, machine,
                  slowest_clock(machine, peers));
  };
  const auto seconds = [&](std::int64_t peers) {
    return of(Kernel::matmul, peers).on(Resource::matrix).value;
  };
  EXPECT_DOUBLE_EQ(seconds(1), 2.0 * 4096 * 4096 * 4096 / (0.8 * 50e12));
  EXPECT_NEAR(seconds(1) / seconds(2), 1 - 0.1 * 0.589, 1e-4);
  EXPECT_LT(seconds(2), seconds(256));
  EXPECT_EQ(of(Kernel::cast, 1), of(Kernel::cast, 256));
}

TEST(Roofline, ComputeBoundMatMulTakesFlopsOverPeak) {
  // 2·4096³ = 137.4 GFLOP at 50 TFLOP/s; three operands of 33.6 MB pass in 0.13 ms meanwhile.
  const Demand matmul = priced(work(Kernel::matmul, DType::bf16, {4096, 4096, 4096}));
  EXPECT_DOUBLE_EQ(matmul.on(Resource::matrix).value, 2.0 * 4096 * 4096 * 4096 / 50e12);
  EXPECT_EQ(bound(matmul), Resource::matrix);
  EXPECT_DOUBLE_EQ(alone(matmul).value, 5e-6 + matmul.on(Resource::matrix).value);
}

TEST(Roofline, MemoryBoundMatMulTakesBytesOverBandwidth) {
  // One row against a weight of 4096²: 2·(4096 + 4096² + 4096) bytes at 0.8 TB/s.
  const Demand matmul = priced(work(Kernel::matmul, DType::bf16, {1, 4096, 4096}));
  EXPECT_EQ(bound(matmul), Resource::hbm);
  EXPECT_DOUBLE_EQ(matmul.on(Resource::hbm).value, 2.0 * (4096.0 * 4096 + 8192) / 0.8e12);
}

TEST(MatMul, AllThreePassesTakeTheSameFlops) {
  const Flops forward = model_flops(work(Kernel::matmul, DType::bf16, {100, 30, 7}), {});
  EXPECT_DOUBLE_EQ(forward.value, 2.0 * 100 * 30 * 7);
  for (const Kernel kernel : {Kernel::matmul_input_backward, Kernel::matmul_weight_backward,
                              Kernel::matmul_weight_backward_add})
    EXPECT_EQ(model_flops(work(kernel, DType::bf16, {100, 30, 7}), {}), forward);
}

TEST(MatMul, EachPassIsJudgedByItsOwnSides) {
  // Only 64 rows of output are slow: forward has m rows, the weight's gradient n.
  Profile profile = round_machine();
  profile.matmul.rows.curve = {{{64, 0.5}, {4096, 1}}};
  const auto matrix = [&](Kernel kernel) {
    return priced(work(kernel, DType::bf16, {4096, 64, 4096}), profile).on(Resource::matrix).value;
  };
  EXPECT_DOUBLE_EQ(matrix(Kernel::matmul_weight_backward), 2 * matrix(Kernel::matmul));
}

TEST(MatMul, AddingToTheOutputMovesItTwice) {
  const Work plain = work(Kernel::matmul_weight_backward, DType::bf16, {8, 100, 50});
  const Work adding = work(Kernel::matmul_weight_backward_add, DType::bf16, {8, 100, 50});
  EXPECT_EQ(memory_traffic(adding, {}) - memory_traffic(plain, {}), Bytes(2 * 100 * 50));
}

TEST(GroupedMatMul, IsJudgedByTheRowsOfOneExpert) {
  Profile profile = round_machine();
  profile.grouped_matmul.rows_per_expert.curve = {{{128, 0.5}, {1024, 1}}};
  const auto matrix = [&](std::int64_t experts) {
    const Work grouped = work(Kernel::grouped_matmul, DType::bf16, {8192, 1024, 1024, experts});
    return priced(grouped, profile).on(Resource::matrix).value;
  };
  EXPECT_DOUBLE_EQ(matrix(64), 2 * matrix(8));
}

TEST(Attention, CountsTheCausalHalfOfEachDocument) {
  // Two documents of 512 in a pack of 1024: Σs² = 2·512². Forward 2·H·D·Σs², backward twice that
  // for MFU and two and a half times in execution.
  const std::int64_t squares = 2 * 512 * 512;
  const Work forward = work(Kernel::attention, DType::bf16, {1024, 8, 2, 64, squares, 512, 1024});
  Work backward = forward;
  backward.kernel = Kernel::attention_backward;
  EXPECT_DOUBLE_EQ(model_flops(forward, {}).value, 2.0 * 8 * 64 * 2 * 512 * 512);
  EXPECT_DOUBLE_EQ(model_flops(backward, {}) / model_flops(forward, {}), 2);
  EXPECT_DOUBLE_EQ(hardware_flops(backward, {}) / hardware_flops(forward, {}), 2.5);
}

// Two documents of 512 behind a window of 128: each scores 128²/2 pairs in its first 128 tokens and
// 128 for each of the other 384.
TEST(Attention, WithinAWindowCountsOnlyWhatItShows) {
  const std::int64_t squares = 2 * 512 * 512;
  const Work whole = work(Kernel::attention, DType::bf16, {1024, 8, 2, 64, squares, 512, 1024});
  const Work within = work(Kernel::attention, DType::bf16, {1024, 8, 2, 64, squares, 128, 1024});
  const double pairs = 2 * (128 * 128 / 2 + 384 * 128);
  EXPECT_DOUBLE_EQ(model_flops(within, {}).value, 2 * 2.0 * 8 * 64 * pairs);
  EXPECT_EQ(memory_traffic(within, {}), memory_traffic(whole, {}));
  EXPECT_LT(alone(priced(within)), alone(priced(whole)));
}

TEST(Attention, WithinAWindowLongerThanEveryDocumentIsWhole) {
  const auto flops = [](std::int64_t reach) {
    const std::int64_t squares = 2 * 512 * 512;
    return model_flops(work(Kernel::attention, DType::bf16, {1024, 8, 2, 64, squares, reach, 1024}),
                       {});
  };
  EXPECT_EQ(flops(4096), flops(512));
  EXPECT_LT(flops(511), flops(512));
}

// Queries and outputs of 1024 tokens, keys and values of 4096: 2·(8·1024 + 2·4096)·64·2 bytes.
TEST(Attention, OfFewQueriesReadsAllKeys) {
  const Work forward = work(Kernel::attention, DType::bf16, {1024, 8, 2, 64, 1, 1, 4096});
  EXPECT_EQ(memory_traffic(forward, {}).value, 2 * (8 * 1024 + 2 * 4096) * 64 * 2);
}

TEST(Attention, OfPackedDocumentsIsCheaperThanOfOne) {
  const auto time = [&](std::int64_t squares) {
    return alone(
        priced(work(Kernel::attention, DType::bf16, {65536, 64, 4, 128, squares, 65536, 65536})));
  };
  const double ratio = time(std::int64_t{65536} * 65536) / time(std::int64_t{65536} * 4096);
  EXPECT_GT(ratio, 10);
  EXPECT_LT(ratio, 16.01);
}

// All of what a rank passes on leaves it, seven eighths of what it exchanges with eight.
TEST(Collective, PassingOnMovesTheWholeMessage) {
  const auto moving = [](const Work& of) {
    return priced(of, round_machine(), {8, 1}).on(Resource::scale_up).value;
  };
  const Work passed = work(Kernel::send_receive, DType::bf16, {40'000'000});
  const Work exchanged = work(Kernel::all_to_all, DType::bf16, {40'000'000, 40'000'000, 1});
  EXPECT_DOUBLE_EQ(moving(passed), 1e-3);
  EXPECT_DOUBLE_EQ(moving(exchanged), 7.0 / 8 * 1e-3);
}

TEST(ModelFlops, OfQwen3AreMegatronsPerToken) {
  // Qwen3-8B at 4096 tokens: 6·(parameters that multiply) plus the causal half of attention is
  // 49 034 311 680 flops a token, where the norms' parameters multiply nothing: 6·308224 less.
  const std::int64_t tokens = 4096;
  const auto three_passes = [&](std::int64_t n, std::int64_t k) {
    return 3 * model_flops(work(Kernel::matmul, DType::bf16, {tokens, n, k}), {}).value;
  };
  const Work attention =
      work(Kernel::attention, DType::bf16, {tokens, 32, 8, 128, tokens * tokens, tokens, tokens});
  Work backward = attention;
  backward.kernel = Kernel::attention_backward;
  const double layer = three_passes(32 * 128, 4096) + 2 * three_passes(8 * 128, 4096) +
                       three_passes(4096, 32 * 128) + three_passes(2 * 12288, 4096) +
                       three_passes(4096, 12288) + model_flops(attention, {}).value +
                       model_flops(backward, {}).value;
  const double step = 36 * layer + three_passes(151936, 4096);
  EXPECT_DOUBLE_EQ(step / tokens, 49'034'311'680.0 - 6.0 * (36 * (2 * 4096 + 2 * 128) + 4096));
}

TEST(MemoryBound, TakesBytesOverTheFractionOfBandwidth) {
  // rms_norm reads and writes 1024·4096 values of 2 bytes and writes 1024 of 4.
  const Demand norm = priced(work(Kernel::rms_norm, DType::bf16, {1024, 4096}));
  EXPECT_DOUBLE_EQ(norm.on(Resource::hbm).value, (2.0 * 1024 * 4096 * 2 + 4096) / 0.8e12);
  EXPECT_EQ(norm.issue, Seconds(1e-6));
}

TEST(MemoryBound, KernelsThatShareAnOpWaitAndAreIssuedOneByOne) {
  const Demand one = priced(work(Kernel::cast, DType::bf16, {1'000'000, 4}));
  const Demand eight = priced(work(Kernel::cast, DType::bf16, {1'000'000, 4, 8}));
  EXPECT_EQ(eight.issue, one.issue * 8);
  EXPECT_EQ(eight.latency, one.latency * 8);
  EXPECT_EQ(eight.on(Resource::hbm), one.on(Resource::hbm));  // the machine knows one fraction
}

TEST(Optimizer, AdamWMovesSevenWordsAnElement) {
  // Its shards are fp32 under any compute dtype.
  for (const DType dtype : {DType::fp32, DType::bf16})
    EXPECT_EQ(memory_traffic(work(Kernel::adamw, dtype, {1000}), {}), Bytes(28 * 1000));
}

TEST(Collective, TakesLatencyAndBusBytesOverBusBandwidth) {
  // 80 MB over 8 ranks: 7/8 of it pass each link at 80 GB/s after 10 us.
  const Demand gather =
      priced(work(Kernel::all_gather, DType::bf16, {40'000'000}), round_machine(), {8, 1});
  EXPECT_DOUBLE_EQ(gather.on(Resource::scale_up).value, 80e6 * 7 / 8 / 80e9);
  EXPECT_DOUBLE_EQ(alone(gather).value, 10e-6 + 80e6 * 7 / 8 / 80e9);
  EXPECT_EQ(gather.issue, Seconds(2e-6));
  EXPECT_EQ(gather.holds, 0.2);
}

// 80 GB/s pass a memory of 1 TB/s twice: 0.16 of it, beside what the kernel occupies.
TEST(Collective, HoldsMemoryByItsRateWhereTheMachineSaysHowOftenAByteIsPassed) {
  Profile machine = round_machine();
  machine.overlap.memory_passes = sourced(2.0);
  const Work gather = work(Kernel::all_gather, DType::bf16, {40'000'000});
  EXPECT_DOUBLE_EQ(priced(gather, machine, {8, 1}).holds, 0.2 + 2 * 80e9 / 1e12);
  machine.collectives.front().rate.points = {{Bytes(1), BytesPerSecond(20e9)}};
  EXPECT_DOUBLE_EQ(priced(gather, machine, {8, 1}).holds, 0.2 + 2 * 20e9 / 1e12);
}

TEST(Collective, PiecesOfTensorRanksAreCopiedAndOccupyNoMultiprocessor) {
  Profile machine = round_machine();
  machine.overlap.all_to_all = sourced(0.3);
  Work piece = work(Kernel::send_receive, DType::bf16, {1'000'000});
  piece.group = Group::context;
  EXPECT_EQ(priced(piece, machine, {8, 1}).holds, 0.3);
  piece.group = Group::tensor;
  EXPECT_EQ(priced(piece, machine, {8, 1}).holds, 0.05);
}

TEST(Collective, AllReduceMovesTwiceWhatReduceScatterDoes) {
  const auto moving = [](Kernel kernel) {
    return priced(work(kernel, DType::fp32, {1'000'000}), round_machine(), {8, 1})
        .on(Resource::scale_up);
  };
  EXPECT_DOUBLE_EQ(moving(Kernel::all_reduce) / moving(Kernel::reduce_scatter), 2);
}

TEST(Collective, ABroadcastPassesAllItsBytesOverEachLinkAtTheRateOfAGather) {
  const Work broadcast = work(Kernel::broadcast, DType::bf16, {40'000'000});
  EXPECT_DOUBLE_EQ(priced(broadcast, round_machine(), {8, 1}).on(Resource::scale_up).value, 1e-3);
  EXPECT_EQ(priced(broadcast, round_machine(), {8, 1}).holds, 0.2);
}

TEST(Collective, OverNodesHoldsBothNetworks) {
  const Work gather = work(Kernel::all_gather, DType::bf16, {40'000'000});
  const Demand wide = priced(gather, round_machine(), {16, 1});
  EXPECT_EQ(wide.on(Resource::scale_out), wide.on(Resource::scale_up));
  const Demand one_per_node = priced(gather, round_machine(), {2, 8});
  EXPECT_EQ(one_per_node.on(Resource::scale_up), Seconds(0));
  EXPECT_GT(one_per_node.on(Resource::scale_out), Seconds(0));
}

TEST(Collective, OfOneRankIsACopy) {
  const Demand gather = priced(work(Kernel::all_gather, DType::bf16, {1000}), round_machine());
  EXPECT_EQ(bound(gather), Resource::hbm);
  EXPECT_EQ(gather.holds, 0);
}

TEST(Collective, AllToAllIsAsLongAsItsBusiestDirection) {
  const auto time = [](std::int64_t sent, std::int64_t received) {
    return alone(priced(work(Kernel::all_to_all, DType::bf16, {sent, received, 512}),
                        round_machine(), {8, 1}));
  };
  EXPECT_EQ(time(100, 300), time(300, 100));
  EXPECT_GT(time(100, 300), time(100, 200));
}

TEST(Copy, UsesTheLinkOfItsDirection) {
  const Demand up = priced(work(Kernel::copy_to_host, DType::bf16, {10'000'000}));
  EXPECT_DOUBLE_EQ(up.on(Resource::host_link_up).value, 20e6 / 20e9);
  EXPECT_EQ(up.on(Resource::host_link_down), Seconds(0));
  EXPECT_EQ(up.holds, 0.05);
  const Demand down = priced(work(Kernel::copy_to_device, DType::bf16, {10'000'000}));
  EXPECT_DOUBLE_EQ(down.on(Resource::host_link_down).value, 20e6 / 25e9);
}

TEST(Host, OpsWaitAndKeepNothingBusy) {
  const Demand bind = priced(work(Kernel::bind_rows, DType::int64, {}));
  EXPECT_EQ(alone(bind), Seconds(4e-6));
  EXPECT_EQ(bind.issue, Seconds(0));
}

// Twelve words of four bytes a parameter through the host's own memory.
TEST(Host, AnUpdateIsBoundByHostMemory) {
  const Demand update = priced(work(Kernel::adamw_on_host, DType::bf16, {10'000'000}));
  EXPECT_DOUBLE_EQ(update.on(Resource::host_memory).value, 480e6 / 200e9);
  EXPECT_EQ(update.on(Resource::hbm), Seconds(0));
}

TEST(MeasuredKernel, ReproducesItsMeasurementAtItsPoint) {
  // A norm of 512 rows took 40 us, 2 us of them fixed; a product of 64·96·128 took 30 us.
  Profile profile = round_machine();
  const Work norm = work(Kernel::rms_norm, DType::fp32, {512, 256});
  const double bytes = static_cast<double>(memory_traffic(norm, {}).value);
  profile.kernels.push_back({Kernel::rms_norm,
                             DType::fp32,
                             Seconds(2e-6),
                             {"T", "E"},
                             {{{512, 256, bytes / (1e12 * 38e-6)}, {64, 256, 0.1}}},
                             {},
                             {}});
  const Work product = work(Kernel::matmul, DType::fp32, {64, 96, 128});
  profile.kernels.push_back({Kernel::matmul,
                             std::nullopt,
                             Seconds(0),
                             {"m", "n", "k"},
                             {{{64, 96, 128, 2.0 * 64 * 96 * 128 / (100e12 * 30e-6)}}},
                             {},
                             {}});
  EXPECT_DOUBLE_EQ(alone(priced(norm, profile)).value, 40e-6);
  EXPECT_DOUBLE_EQ(alone(priced(product, profile)).value, 30e-6);
  const Work other_dtype = work(Kernel::rms_norm, DType::bf16, {512, 256});
  EXPECT_EQ(priced(other_dtype, profile), priced(other_dtype));
}

TEST(MeasuredKernel, MayHaveAxesDerivedFromItsExtents) {
  Profile profile = round_machine();
  const auto set = [&](Kernel kernel, const char* axis) {
    profile.kernels = {
        {kernel, std::nullopt, Seconds(0), {axis}, {{{100, 0.1}, {400, 0.4}}}, {}, {}}};
  };
  set(Kernel::grouped_matmul, "rows_per_expert");
  const Work grouped = work(Kernel::grouped_matmul, DType::bf16, {1600, 64, 64, 8});
  EXPECT_DOUBLE_EQ(priced(grouped, profile).on(Resource::matrix).value,
                   2.0 * 1600 * 64 * 64 / (100e12 * 0.25));
  set(Kernel::attention, "mean_length");
  const Work attention = work(Kernel::attention, DType::bf16, {1000, 2, 1, 64, 400'000, 400, 1000});
  EXPECT_DOUBLE_EQ(priced(attention, profile).on(Resource::matrix).value,
                   2.0 * 2 * 64 * 400'000 / (100e12 * 0.4));
}

TEST(Scale, StretchesTheWholeTimeOfItsKernelOnly) {
  Profile profile = round_machine();
  profile.scales = {{{"rms_norm", 1.5}}};
  const Work norm = work(Kernel::rms_norm, DType::bf16, {1024, 4096});
  EXPECT_DOUBLE_EQ(alone(priced(norm, profile)) / alone(priced(norm)), 1.5);
  const Work add = work(Kernel::add, DType::bf16, {1024});
  EXPECT_EQ(priced(add, profile), priced(add));
}

TEST(Demand, ReadsSymbolsFromTheBindings) {
  Work grouped = work(Kernel::grouped_matmul, DType::bf16, {0, 64, 64, 8});
  grouped.extents[0] = Extent::of(SymbolId{1});
  const Bindings bindings = {7, 1600};
  const Work bound_work = work(Kernel::grouped_matmul, DType::bf16, {1600, 64, 64, 8});
  EXPECT_EQ(demand(grouped, bindings, {}, round_machine()), priced(bound_work));
}

TEST(Demand, OfNoRowsIsTheLatencyAndTheWeights) {
  const Demand empty = priced(work(Kernel::grouped_matmul, DType::bf16, {0, 64, 64, 8}));
  EXPECT_EQ(empty.on(Resource::matrix), Seconds(0));
  EXPECT_EQ(priced(work(Kernel::permute, DType::bf16, {0, 64, 2})).on(Resource::hbm), Seconds(0));
}

TEST(Demand, BytesThatNoMachineHasAreStillACount) {
  for (const auto& row : kernel_rows) {
    Work huge = work(row.kernel, DType::bf16, {});
    for (Extent& extent : huge.extents) extent = Extent(std::int64_t{100'000});
    EXPECT_GE(memory_traffic(huge, {}).value, 0) << name(row.kernel);
  }
}

RC_GTEST_PROP(Demand, OfEveryKernelIsFiniteAndNeverNegative, ()) {
  const auto& row = *rc::gen::elementOf(kernel_rows);
  Work drawn = work(row.kernel, DType::bf16, {});
  for (Extent& extent : drawn.extents) extent = Extent(*rc::gen::inRange<std::int64_t>(0, 100'000));
  const GroupShape group = {*rc::gen::inRange(1, 64), *rc::gen::inRange(1, 16)};
  const Demand found = demand(drawn, {}, group, round_machine());
  RC_ASSERT(std::isfinite(alone(found).value));
  RC_ASSERT(std::ranges::all_of(found.busy, [](Seconds s) { return s.value >= 0; }));
  RC_ASSERT(found.latency.value >= 0 && found.issue.value >= 0);
  RC_ASSERT(memory_traffic(drawn, {}).value >= 0);
}

}  // namespace
}  // namespace xt

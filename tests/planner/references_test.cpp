// DeepSpeed's stage 3 without memory-efficient products: autograd keeps what was gathered for the
// forward pass of a layer until its backward pass, which gathers it again.

#include <gtest/gtest.h>

#include "costmodel/ir/memory.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan.h"
#include "tests/planner/plans.h"

namespace xt {
namespace {

using test::Flags;

constexpr std::int64_t layers = 36;  // of Qwen3-8B

Plan plan_with(const Flags& more) {
  return test::plan_of(test::with({{"model", "qwen3_8b"},
                                   {"machine", "h100_sxm"},
                                   {"devices", "8"},
                                   {"engine", "deepspeed"},
                                   {"pack_length", "4096"},
                                   {"recompute", "none"}},
                                  more));
}

const Flags referenced = {{"memory_efficient_linear", "false"}};

// Bytes that are gathered while the loss runs.
double gathered(const Flags& more) {
  const Plan plan = plan_with(more);
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  const MemoryPeak peak =
      memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss);
  return static_cast<double>(
      peak.by_category[static_cast<std::size_t>(MemoryCategory::gathered_parameters)].value);
}

// The last layer stays gathered in any case.
TEST(References, KeepAllOtherLayersInBf16) {
  const OpGraph graph = graph_of(plan_with({}));
  std::int64_t of_layer = 0;
  for (const GraphParameter& parameter : graph.decoder[0].parameters)
    of_layer += parameter.elements * width(DType::bf16);
  const double more = gathered(referenced) - gathered({});
  EXPECT_NEAR(more / static_cast<double>(of_layer), layers - 1, 1e-3);
}

TEST(References, OfLayersThatAreComputedAgainAreNone) {
  const Flags all = {{"recompute", "all"}};
  EXPECT_EQ(gathered(test::with(referenced, all)), gathered(all));
}

TEST(References, ChangeNoOp) {
  const Plan with = plan_with(referenced), without = plan_with({});
  EXPECT_EQ(lower(graph_of(with), with.strategy).ops.size(),
            lower(graph_of(without), without.strategy).ops.size());
}

// Of what is there while the loss runs: 151936 logits of 4096 tokens in fp32, once more.
TEST(ReturnedLogits, AreBesideThoseOfTheLoss) {
  const auto bytes = [](const Flags& more) {
    const Plan plan = plan_with(more);
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    return memory_peak_in(schedule, assumed_bindings(schedule), Space::device, Phase::loss)
        .peak.value;
  };
  const Flags whole = {{"loss_chunk", "none"}};
  EXPECT_EQ(bytes(test::with(whole, {{"return_logits", "true"}})) - bytes(whole),
            4096LL * 151936 * 4);
}

TEST(ReturnedLogits, AreRefusedWhereThereAreNone) {
  const auto problem = [](const Flags& more) -> std::string {
    try {
      plan_with(more);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const Flags returned = {{"return_logits", "true"}};
  EXPECT_EQ(problem(returned), "");
  EXPECT_NE(problem(test::with(returned, {{"engine", "megatron"}})).find("beside its loss"),
            std::string::npos);
  EXPECT_NE(problem(test::with(returned, {{"compile", "true"}, {"compile_loss", "true"}}))
                .find("a compiled loss"),
            std::string::npos);
  EXPECT_NE(problem(test::with(returned, {{"loss_chunk", "1024"}})).find("of all tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace xt

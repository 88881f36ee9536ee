// A routed layer of Megatron-LM, priced by the profile of H100, against what it took there.

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "costmodel/cost/demand.h"
#include "planner/plan/plan.h"

namespace xt {
namespace {

// Of a rank of eight, with one expert of Mixtral 8x7B and the rows of two experts a token.
constexpr std::int64_t tokens = 4096, rows = 2 * tokens, h = 4096, f = 14336;

Seconds taken(const Profile& profile, const Work& work, const GroupShape& group = {}) {
  constexpr double short_run = 1;
  return alone(demand(work, {}, group, profile, short_run));
}

// Source: Megatron-LM repository, baselines of its MoE layer: 8 GPUs, bf16, forward, all-to-all
TEST(MoeLayer, OfMixtralTakesWhatMegatronMeasuredOnH100) {
  const Profile profile = Catalogue{XT_DATA_ROOT}.machine("h100_sxm");
  const auto bf16 = [](Kernel kernel, std::initializer_list<Extent> extents) {
    Work work = {kernel, DType::bf16, Group::none, {}};
    std::copy(extents.begin(), extents.end(), work.extents.begin());
    return work;
  };
  const Seconds exchange =
      taken(profile, bf16(Kernel::all_to_all, {rows, rows, h, 0, 0}), {.size = 8, .stride = 1});
  const Seconds products = taken(profile, bf16(Kernel::grouped_matmul, {rows, 2 * f, h, 1})) +
                           taken(profile, bf16(Kernel::grouped_matmul, {rows, h, f, 1}));
  const Seconds others = taken(profile, bf16(Kernel::permute, {tokens, h, 2})) +
                         taken(profile, bf16(Kernel::swiglu, {rows, f})) +
                         taken(profile, bf16(Kernel::unpermute, {tokens, h, 2}));
  // Its one expert is a single product, as grouped ones mostly are not.
  EXPECT_NEAR((exchange + products + others + exchange).value / 4.327e-3, 1, 0.1);
}

}  // namespace
}  // namespace xt

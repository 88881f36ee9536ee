// What experts cost beside other products, and beside what else holds the host.

#include <gtest/gtest.h>

#include <utility>

#include "tests/costmodel/cost/round_machine.h"

namespace xt {
namespace {

using test::priced;
using test::round_machine;
using test::work;

TEST(Host, WaitsLongerForCountsWhereTheProfileSaysSo) {
  Profile profile = round_machine();
  profile.launch.counts = {Seconds(300e-6), {}};
  const Demand bind = demand(work(Kernel::bind_rows, DType::int64, {}), {}, {}, profile);
  EXPECT_EQ(alone(bind), Seconds(300e-6));
  const Demand wait = demand(work(Kernel::wait, DType::int64, {}), {}, {}, profile);
  EXPECT_EQ(alone(wait), Seconds(4e-6));
}

// Of 8 experts with 512 rows each.
Work products_apart(Kernel kernel) {
  return work(kernel, DType::bf16, {4096, 1024, 2048, 8, 0, 1, 4});
}

TEST(GroupedMatMul, ExpertsApartAreMultipliedAsSingleProductsAre) {
  Profile profile = round_machine();
  profile.matmul.rows.curve = {{{512, 0.5}, {4096, 1}}};
  profile.matmul.inner.curve = {{{512, 0.25}, {4096, 1}}};
  for (const auto& [grouped, single] :
       {std::pair(Kernel::grouped_matmul, Kernel::matmul),
        std::pair(Kernel::grouped_matmul_weight_backward, Kernel::matmul_weight_backward)}) {
    const Demand all = priced(products_apart(grouped), profile);
    const Demand one = priced(work(single, DType::bf16, {512, 1024, 2048}), profile);
    EXPECT_DOUBLE_EQ(all.on(Resource::matrix).value, 8 * one.on(Resource::matrix).value);
    EXPECT_EQ(all.issue, 8 * one.issue);
  }
}

TEST(GroupedMatMul, AddingTakesWhatMovesTheSumsLonger) {
  const Work plain = products_apart(Kernel::grouped_matmul_weight_backward);
  const Work adding = products_apart(Kernel::grouped_matmul_weight_backward_add);
  constexpr double further = 8.0 * 1024 * 2048 * (4 + 4 - 2);
  EXPECT_EQ(memory_traffic(adding, {}) - memory_traffic(plain, {}),
            Bytes(static_cast<std::int64_t>(further)));
  EXPECT_DOUBLE_EQ(priced(adding).on(Resource::matrix).value,
                   priced(plain).on(Resource::matrix).value + further / 0.8e12);
}

TEST(MatMul, AddingToSumsOfTheirOwnDtypeTakesWhatMovesThemLonger) {
  const auto priced_with = [](Kernel kernel, std::int64_t sum_bytes) {
    return priced(work(kernel, DType::bf16, {4096, 1024, 2048, 0, sum_bytes}));
  };
  const Demand plain = priced_with(Kernel::matmul_weight_backward, 0);
  EXPECT_EQ(priced_with(Kernel::matmul_weight_backward_add, 0).on(Resource::matrix),
            plain.on(Resource::matrix));
  EXPECT_DOUBLE_EQ(priced_with(Kernel::matmul_weight_backward_add, 4).on(Resource::matrix).value,
                   plain.on(Resource::matrix).value + 1024.0 * 2048 * (4 + 4 - 2) / 0.8e12);
}

}  // namespace
}  // namespace xt

// What experts cost beside other products, and beside what else holds the host.

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace xt

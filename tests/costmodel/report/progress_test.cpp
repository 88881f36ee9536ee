#include "costmodel/report/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace xt {
namespace {

TEST(Progress, StaysSilentForASecondThenTellsWhatIsLeftAndErasesItself) {
  std::ostringstream out;
  Seconds now(10);
  {
    Progress progress(out, true, "trying strategies", 400, [&now] { return now; });
    now = Seconds(10.9);
    progress.update(50);
    EXPECT_EQ(out.str(), "");
    now = Seconds(12);
    progress.update(100);  // 2 s for 100, 300 to go
    EXPECT_EQ(out.str(), "\r\x1b[Ktrying strategies 100 of 400, 6 s left");
    now = Seconds(12.05);
    progress.update(101);
    EXPECT_EQ(out.str(), "\r\x1b[Ktrying strategies 100 of 400, 6 s left");
  }
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
}

TEST(Progress, WritesNothingWhenItIsNotShown) {
  std::ostringstream out;
  Seconds now(0);
  {
    Progress progress(out, false, "trying strategies", 400, [&now] { return now; });
    now = Seconds(5);
    progress.update(100);
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace xt

#include "costmodel/report/table.h"

#include <gtest/gtest.h>

#include <vector>

#include "costmodel/report/style.h"

namespace xt {
namespace {

TEST(Table, AlignsNumbersRightAndWordsLeft) {
  Table table({{"", "", Align::left}, {"time", "ms"}, {"bounded by", "", Align::left}});
  table.row({"forward", "~412", "tensor cores"}).row({"swap", "~9"});
  EXPECT_EQ(table.text(),
            "           time [ms]  bounded by\n"
            "  forward       ~412  tensor cores\n"
            "  swap            ~9\n");
}

TEST(Table, HasNoHeaderLineWhenNoColumnHasOne) {
  Table table({{"", "", Align::left}, {""}});
  table.row({"a", "1"});
  EXPECT_EQ(table.text(0), "a  1\n");
}

TEST(Table, AlignsColoredCells) {
  Table table({{"fits"}, {"n"}});
  table.row({Style{true}.painted(Meaning::good, "yes"), "1"});
  EXPECT_EQ(table.text(0), "fits  n\n \x1b[32myes\x1b[0m  1\n");
}

TEST(Numbers, ShareTheUnitAndTheDecimalsOfTheLargest) {
  const std::vector<Seconds> times = {Seconds(0.4121), Seconds(0.0097), Seconds(1.4259)};
  EXPECT_EQ(numbers(times, "~").unit, "s");
  EXPECT_EQ(numbers(times, "~").cells, (std::vector<std::string>{"~0.412", "~0.010", "~1.426"}));
  const std::vector<Bytes> sizes = {Bytes(3LL << 30), Bytes(140LL << 30)};
  EXPECT_EQ(numbers(sizes).unit, "GiB");
  EXPECT_EQ(numbers(sizes).cells, (std::vector<std::string>{"3.0", "140.0"}));
}

TEST(Numbers, ChooseTheUnitByMagnitudeAlone) {
  const std::vector<Seconds> errors = {Seconds(-0.25), Seconds(1e-4)};
  EXPECT_EQ(numbers(errors).cells, (std::vector<std::string>{"-250.0", "0.1"}));
}

TEST(Percent, HasOneDecimal) { EXPECT_EQ(percent(0.2891), "28.9 %"); }

}  // namespace
}  // namespace xt

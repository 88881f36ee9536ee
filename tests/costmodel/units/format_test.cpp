#include "costmodel/units/format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/units/parse.h"

namespace xt {
namespace {

using namespace literals;

TEST(Format, PrintsCapacitiesInBinaryUnits) {
  EXPECT_EQ(format(40_GiB), "40 GiB");
  EXPECT_EQ(format(Bytes(150'753'352'090)), "140.4 GiB");
  EXPECT_EQ(format(1536_B), "1.5 KiB");
  EXPECT_EQ(format(512_B), "512 B");
  EXPECT_EQ(format(Bytes(-(3LL << 30))), "-3 GiB");
  EXPECT_EQ(format(2000_GiB), "2000 GiB");
}

TEST(Format, PrintsRatesInDecimalUnits) {
  EXPECT_EQ(format(BytesPerSecond(4.8e12)), "4800 GB/s");
  EXPECT_EQ(format(BytesPerSecond(0.5e9)), "500 MB/s");
  EXPECT_EQ(format(FlopsPerSecond(989.4e12)), "989.4 TFLOP/s");
  EXPECT_EQ(format(FlopsPerByte(206.25)), "206.2 FLOP/B");
}

TEST(Format, PrintsDurationsWithThreeDigits) {
  EXPECT_EQ(format(Seconds(0.331)), "331 ms");
  EXPECT_EQ(format(Seconds(1.4261)), "1.43 s");
  EXPECT_EQ(format(Seconds(12.34e-6)), "12.3 us");
  EXPECT_EQ(format(Seconds(90 * 60)), "90 min");
  EXPECT_EQ(format(Seconds(36 * 3600)), "36 h");
  EXPECT_EQ(format(Seconds(30 * 86400)), "30 d");
  EXPECT_EQ(format(Seconds(0)), "0 ns");
  EXPECT_EQ(format(Duration(1'500'000)), "1.5 ms");
}

TEST(Format, RollsOverToTheNextUnitAfterRounding) {
  EXPECT_EQ(format(Seconds(0.9999)), "1 s");
  EXPECT_EQ(format(Flops(0.99999e15)), "1 PFLOP");
}

TEST(Format, ReadsBackWithinThePrintedDigits) {
  for (double value = 1e-8; value < 1e7; value *= 1.37) {
    const Seconds seconds(value);
    EXPECT_NEAR(parse<Seconds>(format(seconds)).value->value, value, value * 5e-3);
    const BytesPerSecond rate(value * 1e8);
    EXPECT_NEAR(parse<BytesPerSecond>(format(rate)).value->value, rate.value, rate.value * 5e-4);
  }
}

TEST(Exact, ReadsBackUnchanged) {
  for (double value = 1e-9; value < 1e8; value *= 1.618033) {
    EXPECT_EQ(parse<Seconds>(exact(Seconds(value))).value, Seconds(value)) << value;
    EXPECT_EQ(parse<FlopsPerSecond>(exact(FlopsPerSecond(value))).value, FlopsPerSecond(value));
  }
  for (std::int64_t bytes = 1; bytes < (1LL << 60); bytes = bytes * 3 + 1)
    EXPECT_EQ(parse<Bytes>(exact(Bytes(bytes))).value, Bytes(bytes));
}

TEST(Exact, ChoosesTheShortestUnit) {
  EXPECT_EQ(exact(40_GiB), "40 GiB");
  EXPECT_EQ(exact(Bytes(80'000'000'000)), "80 GB");
  EXPECT_EQ(exact(0_B), "0 B");
  EXPECT_EQ(exact(Bytes(1025)), "1025 B");
  EXPECT_EQ(exact(Seconds(12e-6)), "12 us");
  EXPECT_EQ(exact(BytesPerSecond(4.8e12)), "4.8 TB/s");
}

}  // namespace
}  // namespace xt

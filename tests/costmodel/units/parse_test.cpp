#include "costmodel/units/parse.h"

#include <gtest/gtest.h>

#include <string>

namespace xt {
namespace {

using namespace literals;

TEST(Parse, ReadsCapacitiesInBinaryAndDecimalUnits) {
  EXPECT_EQ(parse<Bytes>("40 GiB").value, 40_GiB);
  EXPECT_EQ(parse<Bytes>("80 GB").value, Bytes(80'000'000'000));
  EXPECT_EQ(parse<Bytes>("1.5 KiB").value, 1536_B);
  EXPECT_EQ(parse<Bytes>("0 B").value, 0_B);
}

TEST(Parse, RoundsBytesToTheNearestWholeByte) {
  // 140.4 * 2^30 = 150753352089.6
  EXPECT_EQ(parse<Bytes>("140.4 GiB").value, Bytes(150'753'352'090));
}

TEST(Parse, ReadsBitsPerSecondAsBytesPerSecond) {
  EXPECT_EQ(parse<BytesPerSecond>("400 Gbit/s").value, BytesPerSecond(50e9));
  EXPECT_EQ(parse<BytesPerSecond>("4.8 TB/s").value, BytesPerSecond(4.8e12));
}

TEST(Parse, ReadsFlopsAndTheirRates) {
  EXPECT_EQ(parse<FlopsPerSecond>("989.4 TFLOP/s").value, FlopsPerSecond(989.4e12));
  EXPECT_EQ(parse<Flops>("3 PFLOP").value, Flops(3e15));
}

TEST(Parse, ReadsTimesToTheNearestDouble) {
  EXPECT_EQ(parse<Seconds>("12 us").value, Seconds(12e-6));
  EXPECT_EQ(parse<Seconds>("1.5 ms").value, Seconds(1.5e-3));
  EXPECT_EQ(parse<Seconds>("2 h").value, Seconds(7200));
  EXPECT_EQ(parse<Seconds>("30 d").value, Seconds(2'592'000));
}

TEST(Parse, AcceptsAUnitWithoutASpace) { EXPECT_EQ(parse<Bytes>("40GiB").value, 40_GiB); }

struct Refusal {
  std::string text;
  std::string problem;
  std::string hint;
};

template <typename Q>
void expect_refused(const Refusal& refusal) {
  const Parsed<Q> parsed = parse<Q>(refusal.text);
  EXPECT_FALSE(parsed.value.has_value()) << refusal.text;
  EXPECT_EQ(parsed.problem, refusal.problem);
  EXPECT_EQ(parsed.hint, refusal.hint);
}

TEST(Parse, RefusesABareNumber) {
  expect_refused<Bytes>({"40", "`40` has no unit", "write bytes with a unit, such as `40 GiB`"});
}

TEST(Parse, RefusesAmbiguousUnits) {
  expect_refused<BytesPerSecond>(
      {"400 Gb/s", "unit `Gb/s` is ambiguous", "write `Gbit/s` or `GB/s`"});
  expect_refused<FlopsPerSecond>({"989 TFLOPS", "unit `TFLOPS` is ambiguous",
                                  "write `TFLOP/s` for a rate, `TFLOP` for a count"});
}

TEST(Parse, NamesTheDimensionThatWasFoundInstead) {
  expect_refused<Bytes>({"64 GB/s", "`GB/s` measures bytes per second, expected bytes",
                         "write bytes with a unit, such as `40 GiB`"});
}

TEST(Parse, SuggestsTheRightCase) {
  expect_refused<Bytes>({"40 gib", "unknown unit `gib`", "did you mean `GiB`?"});
}

TEST(Parse, ListsTheUnitsWhenNoneIsNear) {
  expect_refused<FlopsPerByte>(
      {"40 apples", "unknown unit `apples`", "units of flops per byte: `FLOP/B`"});
}

TEST(Parse, RefusesWhatIsNoPlainNumber) {
  expect_refused<Bytes>({"040 GiB", "number `040` has a leading zero", ""});
  expect_refused<Bytes>({"-1 GiB", "`-1 GiB` is negative", ""});
  expect_refused<Bytes>({"1,000 GiB", "unknown unit `,000 GiB`",
                         "units of bytes: `B`, `kB`, `KiB`, `MB`, `MiB`, `GB`, `GiB`, `TB`, "
                         "`TiB`, `PB`, `PiB`"});
  expect_refused<Bytes>({"many GiB", "expected bytes, found `many GiB`",
                         "write bytes with a unit, such as `40 GiB`"});
  expect_refused<Bytes>({"1e400 GiB", "number `1e400` is out of range", ""});
  expect_refused<Bytes>({"9000000 PB", "`9000000 PB` is more than can be counted", ""});
}

TEST(ParseInteger, TakesOnlyPlainDecimals) {
  EXPECT_EQ(parse_integer("-12").value, -12);
  EXPECT_EQ(parse_integer("010").problem, "number `010` has a leading zero");
  EXPECT_EQ(parse_integer("1e3").problem, "expected a whole number, found `1e3`");
  EXPECT_EQ(parse_integer("1.0").problem, "expected a whole number, found `1.0`");
  EXPECT_EQ(parse_integer("").problem, "expected a whole number, found ``");
  EXPECT_EQ(parse_integer("99999999999999999999").problem,
            "number `99999999999999999999` is out of range");
}

TEST(ParseNumber, TakesFractionsAndExponents) {
  EXPECT_EQ(parse_number("0.5").value, 0.5);
  EXPECT_EQ(parse_number("1e-3").value, 1e-3);
  EXPECT_EQ(parse_number(".5").problem, "expected a number, found `.5`");
  EXPECT_EQ(parse_number("nan").problem, "expected a number, found `nan`");
}

}  // namespace
}  // namespace xt

#include "costmodel/packing/length_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "costmodel/document/scalar.h"
#include "costmodel/packing/log_normal.h"

namespace xt {
namespace {

static_assert(TextValue<LengthDistribution>, "files and flags can hold one");

constexpr std::int64_t no_bound = std::int64_t{1} << 40;

double mean_of(const std::vector<std::int64_t>& lengths) {
  return static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
         static_cast<double>(lengths.size());
}

double median_of(std::vector<std::int64_t> lengths) {
  std::ranges::sort(lengths);
  return static_cast<double>(lengths[lengths.size() / 2]);
}

TEST(LogNormalQuantile, AgreesWithTablesOfTheNormalDistribution) {
  // Abramowitz, Stegun 1964, table 26.5; the last row from 26.6.
  for (const auto& [p, z] : {std::pair{0.5, 0.0},
                             {0.75, 0.674490},
                             {0.975, 1.959964},
                             {0.999, 3.090232},
                             {1 - 1e-9, 5.997807}}) {
    EXPECT_NEAR(log_normal_quantile(100, 1, p), 100 * std::exp(z), 1e-5 * 100 * std::exp(z));
    EXPECT_NEAR(log_normal_quantile(100, 2, 1 - p), 100 * std::exp(-2 * z),
                1e-5 * 100 * std::exp(-2 * z));
  }
  EXPECT_NEAR(std::log(log_normal_quantile(1, 1, 1e-15)), -7.941345, 1e-5);
}

TEST(LogNormalQuantile, AscendsAcrossTheSeamsOfItsParts) {
  double last = 0;
  for (int i = 1; i < 100'000; ++i) {
    const double value = log_normal_quantile(1000, 1, i / 100'000.0);
    ASSERT_GT(value, last) << i;
    last = value;
  }
}

TEST(DrawLengths, OfALogNormalHaveItsMedianAndMean) {
  // 40 000 draws: one standard error of the mean is 0.8 %, of the median 0.7 %.
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const LengthDistribution distribution{LogNormalLength{1200, 1.1}};
    const auto lengths = draw_lengths(distribution, 40'000, no_bound, seed);
    EXPECT_NEAR(median_of(lengths), 1200, 0.03 * 1200);
    EXPECT_NEAR(mean_of(lengths), 1200 * std::exp(1.1 * 1.1 / 2), 0.035 * 2198);
    EXPECT_NEAR(mean_length(distribution, no_bound), 1200 * std::exp(1.1 * 1.1 / 2), 0.01);
  }
}

TEST(DrawLengths, MoveWhatIsTooLongOrTooShortToTheBound) {
  const LengthDistribution distribution{LogNormalLength{2, 2}};
  const auto lengths = draw_lengths(distribution, 40'000, 16, 7);
  EXPECT_EQ(std::ranges::min(lengths), 1);
  EXPECT_EQ(std::ranges::max(lengths), 16);
  // ln(8) / 2 = 1.0397 standard deviations: 14.92 % lie above 16, and 1.3 % round up to it.
  EXPECT_NEAR(static_cast<double>(std::ranges::count(lengths, 16)) / 40'000, 0.155, 0.01);
}

TEST(DrawLengths, HaveTheMeanThatIsPredictedForClampedOnes) {
  for (const std::int64_t longest : {300, 2048, 65'536}) {
    const LengthDistribution distribution{LogNormalLength{1200, 1.5}};
    EXPECT_NEAR(mean_of(draw_lengths(distribution, 40'000, longest, 11)) /
                    mean_length(distribution, longest),
                1, 0.03)
        << longest;
  }
  EXPECT_LT(mean_length({LogNormalLength{1200, 1.5}}, 300), 300);
}

TEST(DrawLengths, AreTheFixedLengthOrTheBound) {
  EXPECT_EQ(draw_lengths({FixedLength{4096}}, 3, 65'536, 1),
            (std::vector<std::int64_t>{4096, 4096, 4096}));
  EXPECT_EQ(draw_lengths({FixedLength{4096}}, 2, 1024, 1), (std::vector<std::int64_t>{1024, 1024}));
  EXPECT_EQ(mean_length({FixedLength{4096}}, 1024), 1024);
}

TEST(DrawLengths, OfAHistogramComeAsOftenAsTheyWeigh) {
  const LengthDistribution distribution{LengthHistogram{{{10, 1}, {20, 0}, {1000, 3}, {5000, 0}}}};
  std::map<std::int64_t, int> counts;
  for (const std::int64_t length : draw_lengths(distribution, 20'000, no_bound, 5))
    ++counts[length];
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[10], 5000, 250);  // four standard deviations
  EXPECT_NEAR(counts[1000], 15'000, 250);
  EXPECT_DOUBLE_EQ(mean_length(distribution, no_bound), 752.5);
  EXPECT_DOUBLE_EQ(mean_length(distribution, 100), 77.5);
}

TEST(DrawLengths, FollowFromTheSeedAlone) {
  const LengthDistribution distribution{LogNormalLength{1200, 1.1}};
  EXPECT_EQ(draw_lengths(distribution, 100, 8192, 4), draw_lengths(distribution, 100, 8192, 4));
  EXPECT_NE(draw_lengths(distribution, 100, 8192, 4), draw_lengths(distribution, 100, 8192, 5));
}

TEST(DrawLengths, AreTheSameBitsOnEveryMachine) {
  // Computed in Python with its own normal quantiles and exponentials.
  EXPECT_EQ(draw_lengths({LogNormalLength{1200, 1.1}}, 8, 65'536, 1),
            (std::vector<std::int64_t>{996, 976, 1339, 3247, 417, 376, 2644, 854}));
}

TEST(LengthDistribution, ReadsWhatItWrites) {
  for (const LengthDistribution& distribution :
       {LengthDistribution{FixedLength{4096}}, LengthDistribution{LogNormalLength{1200, 1.1}},
        LengthDistribution{LogNormalLength{812.5, 0.25}}}) {
    const auto read = LengthDistribution::from_text(distribution.text());
    ASSERT_TRUE(read.value) << read.problem;
    EXPECT_EQ(*read.value, distribution);
  }
  EXPECT_EQ(LengthDistribution{FixedLength{4096}}.text(), "4096");
  EXPECT_EQ((LengthDistribution{LogNormalLength{1200, 1.1}}.text()), "lognormal(1200, 1.1)");
}

TEST(LengthDistribution, ReadsNumbersWithAndWithoutSpaces) {
  const LengthDistribution wanted{LogNormalLength{1200, 1.1}};
  for (const std::string_view text :
       {"lognormal(1200,1.1)", "lognormal( 1200 , 1.1 )", "lognormal (1.2e3, 1.1)"}) {
    const auto read = LengthDistribution::from_text(text);
    ASSERT_TRUE(read.value) << text << ": " << read.problem;
    EXPECT_EQ(*read.value, wanted) << text;
  }
}

TEST(LengthDistribution, DescribesAHistogram) {
  EXPECT_EQ((LengthDistribution{LengthHistogram{{{10, 1}, {1000, 3}}}}.text()),
            "histogram of 2 lengths, mean 752");
}

TEST(LengthDistribution, SaysWhatIsWrongWithText) {
  const std::map<std::string_view, std::string_view> problems = {
      {"", "expected a number of tokens or `lognormal(MEDIAN, SIGMA)`, found ``"},
      {"long", "expected a number of tokens or `lognormal(MEDIAN, SIGMA)`, found `long`"},
      {"lognormal", "expected a number of tokens or `lognormal(MEDIAN, SIGMA)`, found `lognormal`"},
      {"4k", "expected a whole number, found `4k`"},
      {"4096.5", "expected a whole number, found `4096.5`"},
      {"010", "number `010` has a leading zero"},
      {"0", "sample length is `0`, must be at least `1`"},
      {"-5", "sample length is `-5`, must be at least `1`"},
      {"normal(1, 2)", "unknown distribution `normal`"},
      {"lognormal(1200, 1.1", "`lognormal(1200, 1.1` does not end with `)`"},
      {"lognormal(", "`lognormal(` does not end with `)`"},
      {"lognormal(1200)", "`lognormal(1200)` does not have two numbers, a median and a sigma"},
      {"lognormal(1, 2, 3)",
       "`lognormal(1, 2, 3)` does not have two numbers, a median and a sigma"},
      {"lognormal(1k, 2)", "median: expected a number, found `1k`"},
      {"lognormal(1200, )", "sigma: expected a number, found ``"},
      {"lognormal(0.5, 1)",
       "median of `lognormal(0.5, 1)` is `0.5`, must be from `1` to `1000000000` tokens"},
      {"lognormal(1e10, 1)",
       "median of `lognormal(1e10, 1)` is `10000000000`, must be from `1` to `1000000000` tokens"},
      {"lognormal(1200, 0)",
       "sigma of `lognormal(1200, 0)` is `0`, must be above `0` and at most `10`"},
      {"lognormal(1200, 11)",
       "sigma of `lognormal(1200, 11)` is `11`, must be above `0` and at most `10`"}};
  for (const auto& [text, problem] : problems) {
    const auto read = LengthDistribution::from_text(text);
    EXPECT_FALSE(read.value) << text;
    EXPECT_EQ(read.problem, problem);
  }
  EXPECT_EQ(LengthDistribution::from_text("lognormale(1, 2)").hint, "did you mean `lognormal`?");
  EXPECT_EQ(LengthDistribution::from_text("pareto(1, 2)").hint, "known: `lognormal`");
  EXPECT_EQ(LengthDistribution::from_text("4k").hint,
            "write `4096` if all samples are that long, or `lognormal(1200, 1.1)` for a median of "
            "1200");
}

TEST(LengthHistogram, SaysWhatIsWrongWithIt) {
  const auto nothing = std::optional<std::string>();
  EXPECT_EQ(problem({{{1, 0}, {2, 3}}}), nothing);
  EXPECT_EQ(problem(LengthHistogram{}), "the histogram has no length");
  EXPECT_EQ(problem({{{0, 1}}}), "length 0 is not positive");
  EXPECT_EQ(problem({{{5, 1}, {5, 1}}}), "length 5 does not ascend after 5");
  EXPECT_EQ(problem({{{5, -1}}}), "weight -1 of length 5 is not a count");
  EXPECT_EQ(problem({{{5, 0}, {6, 0}}}), "no length has a weight above zero");
}

}  // namespace
}  // namespace xt

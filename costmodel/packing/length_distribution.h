#pragma once

// How long samples are, when the samples themselves are not at hand: one length, a log-normal
// distribution, or a histogram of lengths that somebody counted. Knows no data and no pack.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/units/parse.h"

namespace xt {

/// All samples have this length.
///
/// Units:   tokens, one or more
struct FixedLength {
  std::int64_t tokens = 1;

  bool operator==(const FixedLength&) const = default;
};

/// Logarithms of lengths are normally distributed.
///
/// Units:   median in tokens; sigma is the standard deviation of the natural logarithm
/// Assumes: 1 ≤ median ≤ 10⁹ and 0 < sigma ≤ 10
struct LogNormalLength {
  double median = 1;
  double sigma = 1;

  bool operator==(const LogNormalLength&) const = default;
};

/// Lengths in tokens with how often each occurs.
///
/// Assumes: `problem` finds nothing
struct LengthHistogram {
  std::vector<std::pair<std::int64_t, double>> weights;  ///< length and weight; lengths ascend

  bool operator==(const LengthHistogram&) const = default;
};

/// The longest sample that is read, in tokens.
inline constexpr std::int64_t longest_length = 1'000'000'000;

/// What is wrong with `histogram`, if anything: it says no length, a length is not positive or does
/// not ascend, a weight is negative, or no weight is positive.
std::optional<std::string> problem(const LengthHistogram& histogram);

/// How long samples are.
struct LengthDistribution {
  std::variant<FixedLength, LogNormalLength, LengthHistogram> shape;

  static constexpr std::string_view type_name = "a number of tokens or `lognormal(MEDIAN, SIGMA)`";

  bool operator==(const LengthDistribution&) const = default;

  /// Reads `4096` or `lognormal(1200, 1.1)`; a histogram is no text.
  static Parsed<LengthDistribution> from_text(std::string_view text);
  /// What `from_text` reads; of a histogram a description.
  [[nodiscard]] std::string text() const;
};

/// `count` lengths drawn independently, each rounded to whole tokens and moved into 1 to `longest`.
///
/// Units:   tokens
/// Assumes: longest ≥ 1; the same arguments give the same lengths on every machine
std::vector<std::int64_t> draw_lengths(const LengthDistribution& distribution, std::size_t count,
                                       std::int64_t longest, std::uint64_t seed);

/// The mean of the lengths that `draw_lengths` draws, but for rounding to whole tokens.
///
/// Units:   tokens
double mean_length(const LengthDistribution& distribution, std::int64_t longest);

}  // namespace xt

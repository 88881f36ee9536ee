#include "costmodel/packing/length_distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/nearest.h"
#include "costmodel/packing/log_normal.h"
#include "costmodel/packing/random.h"

namespace xt {
namespace {

constexpr std::array<std::string_view, 1> distribution_names = {"lognormal"};
constexpr std::string_view example_hint =
    "write `4096` if all samples are that long, or `lognormal(1200, 1.1)` for a median of 1200";
constexpr double largest_median = 1e9;
constexpr double largest_sigma = 10;

using Result = Parsed<LengthDistribution>;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

Result fixed_from(std::string_view text) {
  const bool is_number = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  if (!is_number)
    return Result::failed(
        fmt::format("expected {}, found `{}`", LengthDistribution::type_name, text),
        std::string(example_hint));
  const Parsed<std::int64_t> tokens = parse_integer(text);
  if (!tokens.value) return Result::failed(tokens.problem, std::string(example_hint));
  if (*tokens.value < 1)
    return Result::failed(fmt::format("sample length is `{}`, must be at least `1`", text));
  return {LengthDistribution{FixedLength{*tokens.value}}};
}

// `text` has an opening parenthesis and ends with a closing one.
Result log_normal_from(std::string_view text) {
  const std::size_t first = text.find('(') + 1;
  const std::string_view numbers = text.substr(first, text.size() - 1 - first);
  const auto commas = std::ranges::count(numbers, ',');
  if (commas != 1)
    return Result::failed(fmt::format("`{}` does not have two numbers, a median and a sigma", text),
                          std::string(example_hint));
  const std::size_t comma = numbers.find(',');
  const Parsed<double> median = parse_number(trimmed(numbers.substr(0, comma)));
  if (!median.value) return Result::failed(fmt::format("median: {}", median.problem));
  const Parsed<double> sigma = parse_number(trimmed(numbers.substr(comma + 1)));
  if (!sigma.value) return Result::failed(fmt::format("sigma: {}", sigma.problem));
  if (*median.value < 1 || *median.value > largest_median)
    return Result::failed(fmt::format("median of `{}` is `{}`, must be from `1` to `{:.0f}` tokens",
                                      text, *median.value, largest_median));
  if (*sigma.value <= 0 || *sigma.value > largest_sigma)
    return Result::failed(fmt::format("sigma of `{}` is `{}`, must be above `0` and at most `{}`",
                                      text, *sigma.value, largest_sigma),
                          "sigma is the standard deviation of the logarithm of the length");
  return {LengthDistribution{LogNormalLength{*median.value, *sigma.value}}};
}

std::string text_of(const FixedLength& fixed) { return fmt::format("{}", fixed.tokens); }
std::string text_of(const LogNormalLength& log_normal) {
  return fmt::format("lognormal({}, {})", log_normal.median, log_normal.sigma);
}
std::string text_of(const LengthHistogram& histogram) {
  const double mean = mean_length({histogram}, std::numeric_limits<std::int64_t>::max());
  return fmt::format("histogram of {} lengths, mean {:.0f}", histogram.weights.size(), mean);
}

double mean(const FixedLength& fixed, std::int64_t longest) {
  return static_cast<double>(std::min(fixed.tokens, longest));
}
double mean(const LogNormalLength& log_normal, std::int64_t longest) {
  return clamped_log_normal_mean(log_normal.median, log_normal.sigma, 1,
                                 static_cast<double>(longest));
}
double mean(const LengthHistogram& histogram, std::int64_t longest) {
  double weighted = 0;
  double weights = 0;
  for (const auto& [length, weight] : histogram.weights) {
    weighted += weight * static_cast<double>(std::min(length, longest));
    weights += weight;
  }
  return weighted / weights;
}

void fill(std::span<std::int64_t> lengths, const FixedLength& fixed, std::int64_t longest,
          Random&) {
  std::ranges::fill(lengths, std::min(fixed.tokens, longest));
}
void fill(std::span<std::int64_t> lengths, const LogNormalLength& log_normal, std::int64_t longest,
          Random& random) {
  for (std::int64_t& length : lengths) {
    const double exact = log_normal_quantile(log_normal.median, log_normal.sigma, random.unit());
    const bool is_within = exact < static_cast<double>(longest);
    length =
        is_within ? static_cast<std::int64_t>(std::floor(std::max(exact, 1.0) + 0.5)) : longest;
  }
}
void fill(std::span<std::int64_t> lengths, const LengthHistogram& histogram, std::int64_t longest,
          Random& random) {
  std::vector<double> weights_up_to;
  double sum = 0;
  for (const auto& entry : histogram.weights) weights_up_to.push_back(sum += entry.second);
  for (std::int64_t& length : lengths) {
    const auto above = std::ranges::upper_bound(weights_up_to, random.unit() * sum);
    // The product may round up to the sum; the last entry with a weight is meant then.
    const auto entry =
        above == weights_up_to.end() ? std::ranges::lower_bound(weights_up_to, sum) : above;
    const auto at = static_cast<std::size_t>(entry - weights_up_to.begin());
    length = std::min(histogram.weights[at].first, longest);
  }
}

}  // namespace

constexpr double largest_weight = 1e15;

std::optional<std::string> problem(const LengthHistogram& histogram) {
  if (histogram.weights.empty()) return "the histogram has no length";
  std::int64_t last = 0;
  double sum = 0;
  for (const auto& [length, weight] : histogram.weights) {
    if (length < 1) return fmt::format("length {} is not positive", length);
    if (length <= last) return fmt::format("length {} does not ascend after {}", length, last);
    if (length > longest_length)
      return fmt::format("length {} is more than {}", length, longest_length);
    if (!(weight >= 0 && weight <= largest_weight))
      return fmt::format("weight {} of length {} is not a count", weight, length);
    last = length;
    sum += weight;
  }
  if (sum <= 0) return "no length has a weight above zero";
  return std::nullopt;
}

Parsed<LengthDistribution> LengthDistribution::from_text(std::string_view text) {
  const std::size_t opening = text.find('(');
  if (opening == std::string_view::npos) return fixed_from(text);
  const std::string_view name = trimmed(text.substr(0, opening));
  if (std::ranges::find(distribution_names, name) == distribution_names.end())
    return Result::failed(fmt::format("unknown distribution `{}`", name),
                          did_you_mean(name, distribution_names, "known"));
  if (text.back() != ')')
    return Result::failed(fmt::format("`{}` does not end with `)`", text),
                          std::string(example_hint));
  return log_normal_from(text);
}

std::string LengthDistribution::text() const {
  return std::visit([](const auto& one) { return text_of(one); }, shape);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a count, a bound and a seed
std::vector<std::int64_t> draw_lengths(const LengthDistribution& distribution, std::size_t count,
                                       std::int64_t longest, std::uint64_t seed) {
  XT_CHECK(longest >= 1, longest);
  Random random(seed, Purpose::lengths);
  std::vector<std::int64_t> lengths(count);
  std::visit([&](const auto& shape) { fill(lengths, shape, longest, random); }, distribution.shape);
  return lengths;
}

double mean_length(const LengthDistribution& distribution, std::int64_t longest) {
  return std::visit([&](const auto& shape) { return mean(shape, longest); }, distribution.shape);
}

}  // namespace xt

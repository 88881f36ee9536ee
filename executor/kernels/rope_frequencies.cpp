#include "executor/kernels/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

constexpr auto pi = std::numbers::pi_v<float>;

// Source: Hugging Face transformers, modeling_rope_utils.py, _compute_llama3_parameters
float scaled_as_llama3(float frequency, const RopeScaling& by) {
  const auto factor = static_cast<float>(by.factor), low = static_cast<float>(by.low_freq_factor),
             high = static_cast<float>(by.high_freq_factor),
             length = static_cast<float>(by.original_length);
  const float wave = 2 * pi / frequency;
  if (wave < length / high) return frequency;
  if (wave > length / low) return frequency / factor;
  const float share = (length / wave - low) / (high - low);
  return (1 - share) * frequency / factor + share * frequency;
}

// The column whose wave turns so often within the original length.
double column_of_turns(double turns, double length, double theta, double D) {
  return D * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

// Divided by the factor behind the columns of slow waves, in part between these and fast ones.
//
// Source: Hugging Face transformers, modeling_rope_utils.py, _compute_yarn_parameters
float scaled_as_yarn(float frequency, std::int64_t column, std::int64_t D, double theta,
                     const RopeScaling& by) {
  const auto size = static_cast<double>(D);
  double low = column_of_turns(by.beta_fast, by.original_length, theta, size);
  double high = column_of_turns(by.beta_slow, by.original_length, theta, size);
  if (by.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  const double ramp = (static_cast<double>(column) - low) / (high - low);
  const auto divided = static_cast<float>(std::clamp(ramp, 0.0, 1.0));
  return frequency / static_cast<float>(by.factor) * divided + frequency * (1 - divided);
}

float scaled(float frequency, std::int64_t column, std::int64_t D,
             const ModelConstants& constants) {
  const RopeScaling& by = constants.rope_scaling;
  switch (by.kind) {
    case RopeScalingKind::none:
      return frequency;
    case RopeScalingKind::linear:
      return frequency / static_cast<float>(by.factor);
    case RopeScalingKind::llama3:
      return scaled_as_llama3(frequency, by);
    case RopeScalingKind::yarn:
      return scaled_as_yarn(frequency, column, D, constants.rope_theta, by);
    case RopeScalingKind::other:
      break;
  }
  XT_CHECK(false, static_cast<int>(by.kind));
}

}  // namespace

std::vector<float> rope_frequencies(std::int64_t D, const ModelConstants& constants) {
  const auto theta = static_cast<float>(constants.rope_theta);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < D / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(D);
    frequencies.push_back(scaled(1.0f / std::pow(theta, exponent), i, D, constants));
  }
  return frequencies;
}

}  // namespace xt

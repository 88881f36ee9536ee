#pragma once

// Rotary angles stretched for longer sequences than a model was first trained on.

#include <array>
#include <cstdint>
#include <string_view>

namespace xt {

/// How frequencies are scaled: not at all; all divided by a factor; those of long waves divided by
/// it and those between in part, by wave length (Llama 3) or by turns within the original length
/// (YaRN); or as nothing here computes, which costs the same.
enum class RopeScalingKind : std::uint8_t { none, linear, llama3, yarn, other };

inline constexpr std::array<std::string_view, 5> rope_scaling_names = {"none", "linear", "llama3",
                                                                       "yarn", "other"};

/// Scaling of rotary frequencies, under the names of Hugging Face's config.json.
///
/// Source:  Hugging Face transformers, modeling_rope_utils.py; Peng et al. 2023, "YaRN", arXiv
///          2309.00071, section 3.2
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1;
  double low_freq_factor = 1;   ///< waves longer than the original length over it are divided
  double high_freq_factor = 1;  ///< those shorter than that length over it stay
  double original_length = 0;   ///< tokens
  double beta_fast = 32;        ///< of yarn: frequencies of more turns than this stay
  double beta_slow = 1;         ///< of yarn: those of fewer turns are divided
  bool truncates = true;        ///< of yarn: columns between are bounded by whole ones
  double attention_factor = 1;  ///< cosines and sines are multiplied by it

  auto operator<=>(const RopeScaling&) const = default;
};

}  // namespace xt

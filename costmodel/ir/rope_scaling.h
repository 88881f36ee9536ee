#pragma once

// Rotary angles stretched for longer sequences than a model was first trained on.

#include <array>
#include <cstdint>
#include <string_view>

namespace xt {

/// How frequencies are scaled: not at all; all divided by a factor; those of long waves divided by
/// it and those between in part (Llama 3); or as nothing here computes, which costs the same.
enum class RopeScalingKind : std::uint8_t { none, linear, llama3, other };

inline constexpr std::array<std::string_view, 4> rope_scaling_names = {"none", "linear", "llama3",
                                                                       "other"};

/// Scaling of rotary frequencies, under the names of Hugging Face's config.json.
///
/// Source:  Hugging Face transformers, modeling_rope_utils.py
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1;
  double low_freq_factor = 1;   ///< waves longer than the original length over it are divided
  double high_freq_factor = 1;  ///< those shorter than that length over it stay
  double original_length = 0;   ///< tokens

  auto operator<=>(const RopeScaling&) const = default;
};

}  // namespace xt

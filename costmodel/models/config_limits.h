#pragma once

// How large the numbers of a model file may be, so that a damaged one is refused and not walked.

#include <cstdint>

namespace xt {

/// The largest numbers that are read: several times those of any model, and small enough that no
/// product of them overflows.
struct ConfigLimits {
  static constexpr std::int64_t layers = 1024;
  static constexpr std::int64_t further_tokens = 16;
  static constexpr std::int64_t heads = 4096;
  static constexpr std::int64_t experts = 8192;
  static constexpr std::int64_t width = 1 << 18;
  static constexpr std::int64_t vocabulary = 1 << 24;
};

}  // namespace xt

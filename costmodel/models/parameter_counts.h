#pragma once

// How large a model is, as its name says.

#include <cstdint>
#include <string>

#include "costmodel/models/architecture.h"

namespace xt {

/// Parameters of a model, embedding and lm_head included.
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t of_a_token = 0;  ///< without the experts that a token does not go to
};

/// Counts what the decoder of `architecture` has.
///
/// Assumes: num_experts_per_tok experts take a token, and all experts of a layer are equal
/// Source:  Qwen3 technical report 2025, table 2, which says both of its models
ParameterCounts parameter_counts(const Architecture& architecture);

/// Four significant digits of `parameters` in 10^9.
std::string in_billions(std::int64_t parameters);

}  // namespace xt

#pragma once

// From what a published row says of its attention to the kernel of a plan.

#include <optional>
#include <string>

#include "planner/validate/published_row.h"

namespace xt {

/// Whether no kernel of a row keeps scores on the chip: its field or its notes say so.
bool has_unfused_attention(const PublishedRow& row);

/// The library that a row names, as profiles spell it: `FlashAttention-2` and `flash_attention_2`
/// are flash2. What is not known stays as it is, for the checks of a plan to refuse; none where the
/// row leaves it to the framework, as PyTorch's SDPA and Transformer Engine do.
std::optional<std::string> attention_library(const PublishedRow& row);

}  // namespace xt

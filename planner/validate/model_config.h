#pragma once

// From the model of a published row to the configuration that builds it: the same keys, read by the
// same reader, as a config.json.

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/models/config.h"
#include "planner/validate/published_row.h"

namespace xt {

/// The family of `model`, as Hugging Face's model_type; also of families that cannot be built.
///
/// Assumes: a name says what shapes do not: norms of queries and keys, biases, the activation
std::string_view model_type(const PublishedModel& model);

/// Every type that model_type() gives.
std::vector<std::string_view> model_types();

/// Why no configuration of its family has the model of `row`; empty where one has. What a GPT of
/// Hugging Face derives from its heads and width is not left to a row that says otherwise.
std::string misshape(const PublishedRow& row);

/// The configuration of `model`, with `positions` where they are learned; they are the window of a
/// model of which the row names none. A GPT whose attention is not fused has biases and dropout.
///
/// Assumes: its type is that of a family; a row names a window that has an effect
/// Throws: InputError with everything that the family cannot have
ModelConfig model_config(const PublishedModel& model, std::int64_t positions,
                         bool has_unfused_attention);

}  // namespace xt

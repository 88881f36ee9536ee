#pragma once

// What a row's step has in host memory.

#include <string_view>

#include "planner/validate/published_row.h"

namespace xt {

/// Whether the inputs of layers wait in host memory.
bool offloads_inputs_of_layers(const PublishedRow& row);

/// The share of what a pipeline's chunks keep that waits in host memory, as a row spells it; empty
/// where it tells none.
std::string_view offload_share(const PublishedRow& row);

}  // namespace xt

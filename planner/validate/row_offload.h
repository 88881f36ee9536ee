#pragma once

// What of a published step waits in host memory.

#include <optional>
#include <string_view>

#include "planner/validate/published_row.h"

namespace xt {

/// What waits on the host.
struct Offload {
  std::string_view detail;     ///< how rows tell it
  bool of_inputs = false;      ///< of layers
  bool of_optimizer = false;   ///< which is updated there
  bool of_parameters = false;  ///< 16-bit shards too
  std::string_view of_chunks =
      {};  ///< the share of what a pipeline's chunks keep, as a row spells it
};

/// What `row` leaves to the host; none where no plan does.
std::optional<Offload> offload_of(const PublishedRow& row);

}  // namespace xt

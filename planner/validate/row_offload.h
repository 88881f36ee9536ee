#pragma once

// What of a published step waits in host memory.

#include "planner/validate/published_row.h"

namespace xt {

/// What waits on the host, by how rows tell it.
struct Offload {
  std::string_view detail;
  bool of_inputs = false;      ///< of layers
  bool of_optimizer = false;   ///< which is updated there
  bool of_parameters = false;  ///< 16-bit shards too
};

/// What `row` leaves to the host; null where no plan does.
const Offload* offload_of(const PublishedRow& row);

}  // namespace xt

#pragma once

// What a predicted time rests on: which number of the profile decides the time of a piece of work,
// and how far that number is to be trusted.

#include <string>

#include "costmodel/cost/demand.h"

namespace xt {

/// A number of a profile, by its path in the file.
struct Basis {
  std::string path;  ///< such as `matmul.base` or `collectives.all_gather`
  Provenance from;
};

/// The least trusted of the numbers that decide how long `work` takes alone: those of the resource
/// that bounds it, or of the latency where that is longer. Of equals, the first in the file.
///
/// Assumes: as demand()
Basis weakest(const Work& work, const Bindings& bindings, const GroupShape& group,
              const Profile& profile);

}  // namespace xt

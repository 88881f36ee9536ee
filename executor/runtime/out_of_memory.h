#pragma once

// What is said where memory is not to be had.

#include <stdexcept>
#include <string>

#include "executor/runtime/allocator.h"

namespace xt {

/// The system refuses memory, or a space would pass its limit.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The same `error` where it is known what asked for the memory.
OutOfMemory wanted_by(const OutOfMemory& error, const std::string& what);

/// What is held in all spaces, the largest categories first, in a clause.
std::string held_text(const MemoryUsage& usage);

/// That the system gives no `asked` more.
OutOfMemory refused_by_system(Bytes asked, Space space, MemoryCategory category,
                              const MemoryUsage& usage);

/// That `asked` more would pass `limit` of `space`.
OutOfMemory beyond_limit(Bytes asked, Bytes limit, Space space, MemoryCategory category,
                         const MemoryUsage& usage);

}  // namespace xt

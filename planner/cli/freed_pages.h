#pragma once

// What becomes of memory that xt-plan frees.

#include <malloc.h>

namespace xt {

/// Keeps the pages of freed memory for the next allocation. A planner makes and drops one schedule
/// of some megabytes after the other; giving their pages back to the system and having them cleared
/// again would take half as long as building them.
///
/// Assumes: called first thing in main; the process lives for one answer or one search
inline void keep_freed_pages() {
  constexpr int largest_kept = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, largest_kept);
  mallopt(M_TRIM_THRESHOLD, largest_kept);
}

}  // namespace xt

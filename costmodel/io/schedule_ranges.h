#pragma once

// Whether a schedule that was read can be looked at: every position points to something, every
// number is one that others may divide and multiply by. Private to io; the rules of a schedule are
// `verify`'s.

#include "costmodel/ir/schedule.h"

namespace xt {

/// Whether every position in `schedule` points to something, and only backwards where it must.
bool is_closed(const Schedule& schedule);

/// Whether sizes, repetitions, groups and the bytes of all buffers are numbers of a step that could
/// be.
///
/// Assumes: is_closed(schedule)
bool has_sane_numbers(const Schedule& schedule);

}  // namespace xt

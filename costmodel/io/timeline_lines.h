#pragma once

// Timelines as files of JSON Lines: per timeline a header, then `[op, repeat, start_ns, end_ns]`
// per event. A file holds any number of timelines, one behind the other: steps, ranks, or both.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/io/files.h"
#include "costmodel/ir/timeline.h"

namespace xt {

inline constexpr std::string_view timeline_schema = "xt.timeline/2";

/// The timelines of a file, by how much later than rank 0's each one's clock started, and when
/// rank 0's did, since that of the first step of its run.
struct TimelineFile {
  std::vector<Timeline> timelines;
  std::vector<Duration> clock_offsets;
  std::vector<Duration> step_starts;
};

/// `timeline` as the text of a file, or of a part of one.
std::string timeline_lines(const Timeline& timeline, Duration clock_offset = {},
                           Duration step_start = {});

/// The timelines that `text`, the content of the file at `path`, describes.
///
/// Throws: InputError when it is of another format version or damaged
TimelineFile parse_timeline_lines(const std::string& path, std::string_view text);

/// The timelines in the file at `path`.
///
/// Throws: InputError, also when there is no such file
TimelineFile read_timelines(const std::filesystem::path& path);

/// Makes `timelines` the content of the file at `path`.
///
/// Throws: InputError when the file exists and may not be overwritten; std::system_error
void write_timelines(const std::filesystem::path& path, std::span<const Timeline> timelines,
                     Overwrite overwrite);

}  // namespace xt

#pragma once

// Schedules as files of JSON Lines: a header with everything that exists once, then one line per
// symbol, work, buffer, op, section, flat, placement and held_back, as arrays in the order of the
// fields. Enumerators are written by name, extents as numbers or as `"$3"` for symbol 3, absent ids
// as −1.

#include <filesystem>
#include <string>
#include <string_view>

#include "costmodel/io/files.h"
#include "costmodel/ir/schedule.h"

namespace xt {

inline constexpr std::string_view schedule_schema = "xt.schedule/4";

/// A digest as files and people write it: 16 hexadecimal digits.
std::string digest_text(std::uint64_t digest);

/// `schedule` as the text of a file.
std::string schedule_lines(const Schedule& schedule);

/// The schedule that `text`, the content of the file at `path`, describes.
///
/// Throws: InputError when it is of another format version, damaged, or does not have the digest
///         that it claims
Schedule parse_schedule_lines(const std::string& path, std::string_view text);

/// The schedule in the file at `path`.
///
/// Throws: InputError, also when there is no such file
Schedule read_schedule(const std::filesystem::path& path);

/// Makes `schedule` the content of the file at `path`.
///
/// Throws: InputError when the file exists and may not be overwritten; std::system_error
void write_schedule(const std::filesystem::path& path, const Schedule& schedule,
                    Overwrite overwrite);

}  // namespace xt

#pragma once

// Files of one JSON value a line: schedules, timelines, metrics.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "costmodel/io/json.h"

namespace xt {

/// Calls `visit` with the value of each line of `text`; a JsonError that the visit throws is
/// reported at its line of `path`.
///
/// Throws: InputError at the first line that is not JSON or that the visit refuses
void for_each_json_line(const std::string& path, std::string_view text,
                        const std::function<void(const Json&)>& visit);

/// The same for the file at `path`.
///
/// Throws: InputError, also when there is no such file
void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const Json&)>& visit);

}  // namespace xt

#pragma once

// The end of a file that another process is still writing line by line.

#include <cstdint>
#include <filesystem>
#include <string>

namespace xt {

/// The whole lines among the last `most` bytes of the file at `path`. A last line that has no line
/// break yet is left out, and so is a first one that does not begin in these bytes; empty where
/// there is no file.
///
/// Throws: std::system_error if the file cannot be read
std::string last_whole_lines(const std::filesystem::path& path, std::int64_t most);

}  // namespace xt

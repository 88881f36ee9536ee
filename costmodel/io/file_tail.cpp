#include "costmodel/io/file_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "costmodel/io/files.h"

namespace xt {

std::string last_whole_lines(const std::filesystem::path& path, std::int64_t most) {
  if (!file_exists(path)) return {};
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream.tellg();
  // One byte more than asked for tells whether the first line begins there.
  const std::streamoff first = std::max<std::streamoff>(0, size - most - 1);
  stream.seekg(first);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad() || size < 0)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("{}: cannot be read", path.string()));
  text.resize(text.rfind('\n') + 1);
  if (first > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

}  // namespace xt

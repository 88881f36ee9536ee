#include "costmodel/io/json_lines.h"

#include <algorithm>
#include <vector>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/files.h"

namespace xt {

void for_each_json_line(const std::string& path, std::string_view text,
                        const std::function<void(const Json&)>& visit) {
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view content = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), content.size() + 1));
    try {
      visit(parse_json(content));
    } catch (const JsonError& error) {
      const Location where = {path, line, 1, 1};
      throw InputError(
          {{Severity::error, where, error.what()}},
          {{path, std::string(static_cast<std::size_t>(line) - 1, '\n') + std::string(content)}});
    }
  }
}

void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const Json&)>& visit) {
  for_each_json_line(path.string(), read_file(path), visit);
}

}  // namespace xt

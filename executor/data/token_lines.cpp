#include <fmt/format.h>

#include <limits>

#include "costmodel/io/json_lines.h"
#include "executor/data/sources.h"

namespace xt {

std::unique_ptr<Documents> token_lines(const std::filesystem::path& path) {
  auto documents = std::make_unique<TokensInMemory<std::int32_t>>();
  for_each_json_line(path, [&](const Json& line) {
    documents->begin_document();
    for (const Json& token : line.at("input_ids").items()) {
      const std::int64_t id = token.as_int();
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
        throw JsonError(fmt::format("token {} is not an id", id));
      documents->append(static_cast<std::int32_t>(id));
    }
  });
  return documents;
}

}  // namespace xt

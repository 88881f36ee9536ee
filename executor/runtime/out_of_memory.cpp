#include "executor/runtime/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "costmodel/units/format.h"

namespace xt {
namespace {

std::string_view word(Space space) { return space_names[static_cast<std::size_t>(space)]; }
std::string_view word(MemoryCategory category) {
  return memory_category_names[static_cast<std::size_t>(category)];
}

}  // namespace

OutOfMemory wanted_by(const OutOfMemory& error, const std::string& what) {
  return OutOfMemory(fmt::format("{}; wanted by {}", error.what(), what));
}

std::string held_text(const MemoryUsage& usage) {
  std::vector<std::pair<Bytes, std::string>> parts;
  for (std::size_t space = 0; space < n_spaces; ++space)
    for (std::size_t category = 0; category < n_memory_categories; ++category) {
      const Bytes bytes = usage.spaces[space].by_category[category];
      if (bytes > Bytes(0))
        parts.emplace_back(bytes, fmt::format("{} {} on the {}", format(bytes),
                                              memory_category_names[category], space_names[space]));
    }
  std::ranges::sort(parts, std::greater());
  std::string text = fmt::format("{} are held", format(usage.reserved));
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? ": " : ", ") + parts[i].second;
  return text;
}

OutOfMemory refused_by_system(Bytes asked, Space space, MemoryCategory category,
                              const MemoryUsage& usage) {
  return OutOfMemory(fmt::format("out of memory: the system gives no {} more, for {} on the {}; {}",
                                 format(asked), word(category), word(space), held_text(usage)));
}

OutOfMemory beyond_limit(Bytes asked, Bytes limit, Space space, MemoryCategory category,
                         const MemoryUsage& usage) {
  return OutOfMemory(
      fmt::format("out of memory: {} more for {} would pass the {} that the {} may hold; {}",
                  format(asked), word(category), format(limit), word(space), held_text(usage)));
}

}  // namespace xt

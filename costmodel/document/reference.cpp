#include "costmodel/document/reference.h"

#include <fmt/format.h>

namespace xt {

std::string markdown(const std::vector<KeyReference>& rows) {
  std::string text = "| key | type | meaning |\n| --- | --- | --- |\n";
  for (const KeyReference& row : rows) {
    std::string presence;
    if (!row.is_required)
      presence = row.initial.empty() ? "; may be left out"
                                     : fmt::format("; `{}` when left out", row.initial);
    text += fmt::format("| `{}` | {}{} | {} |\n", row.key, row.type, presence, row.doc);
  }
  return text;
}

}  // namespace xt

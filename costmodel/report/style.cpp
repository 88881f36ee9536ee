#include "costmodel/report/style.h"

#include <fmt/format.h>

namespace xt {
namespace {

std::string_view escape(Meaning meaning) {
  switch (meaning) {
    case Meaning::good:
      return "32";
    case Meaning::warn:
      return "33";
    case Meaning::bad:
      return "31";
    case Meaning::path:
    case Meaning::literal:
      return "36";
    case Meaning::dim:
      return "2";
    case Meaning::strong:
      return "1";
  }
  return "0";
}

}  // namespace

bool wants_color(ColorMode mode, const StreamFacts& facts) {
  switch (mode) {
    case ColorMode::always:
      return true;
    case ColorMode::never:
      return false;
    case ColorMode::automatic:
      break;
  }
  return facts.is_terminal && !facts.has_no_color && facts.term != "dumb";
}

std::string Style::painted(Meaning meaning, std::string_view text) const {
  if (!is_colored) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", escape(meaning), text);
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      const std::size_t end = text.find('m', at);
      if (end == std::string_view::npos) break;
      at = end;
    } else if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U) {
      ++columns;  // the first byte of a character
    }
  }
  return columns;
}

}  // namespace xt

#include "planner/plan/choice.h"

#include <charconv>

namespace xt {

Parsed<Choice> Choice::from_text(std::string_view text) {
  if (text == "none") return {Choice{ChoiceKind::none, 0}};
  if (text == "all") return {Choice{ChoiceKind::all, 0}};
  if (text == "auto") return {Choice{ChoiceKind::automatic, 0}};
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size() && number >= 0;
  const bool has_leading_zero = text.size() > 1 && text.front() == '0';
  if (!is_whole || has_leading_zero)
    return Parsed<Choice>::failed("expected " + std::string(type_name) + ", found `" +
                                  std::string(text) + "`");
  return {Choice{ChoiceKind::number, number}};
}

std::string Choice::text() const {
  switch (kind) {
    case ChoiceKind::none:
      return "none";
    case ChoiceKind::all:
      return "all";
    case ChoiceKind::automatic:
      return "auto";
    case ChoiceKind::number:
      return std::to_string(number);
  }
  return {};
}

}  // namespace xt

#pragma once

// Values of a run file that are a number or one of a few words.

#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/units/parse.h"

namespace xt {

enum class ChoiceKind : std::uint8_t { none, all, automatic, number };

/// How much of something: `none`, `all`, `auto`, or so many.
struct Choice {
  ChoiceKind kind = ChoiceKind::none;
  std::int64_t number = 0;

  static constexpr std::string_view type_name = "`none`, `all`, `auto` or a whole number";

  bool operator==(const Choice&) const = default;

  static Parsed<Choice> from_text(std::string_view text);
  std::string text() const;
};

}  // namespace xt

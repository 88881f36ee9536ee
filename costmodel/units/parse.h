#pragma once

// Text typed by people to quantities. Strict: a number without a unit, a unit that may mean two
// things and a number with leading zeros are refused with a reason and a remedy.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "costmodel/units/quantity.h"
#include "costmodel/units/unit.h"

namespace xt {

/// A value read from text, or why there is none and what to write instead.
template <typename T>
struct [[nodiscard]] Parsed {
  std::optional<T> value = std::nullopt;
  std::string problem = {};
  std::string hint = {};

  /// A failure with its reason.
  static Parsed failed(std::string problem, std::string hint = {}) {
    return {std::nullopt, std::move(problem), std::move(hint)};
  }
};

/// The decimal number written in `text`: digits, an optional fraction, an optional exponent.
Parsed<double> parse_number(std::string_view text);

/// The whole number written in `text`, decimal and without leading zeros.
Parsed<std::int64_t> parse_integer(std::string_view text);

/// `text` ("40 GiB") in base units of `dimension`; never negative.
Parsed<double> parse_in(const Dimension& dimension, std::string_view text);

/// `text` as a whole number of base units of `dimension`, rounded to nearest; never negative.
Parsed<std::int64_t> parse_whole_in(const Dimension& dimension, std::string_view text);

/// The quantity written in `text`, a number and a unit of its dimension.
///
/// Assumes: bytes are rounded to the nearest whole byte ("140.4 GiB" is not a whole number of them)
template <typename Q>
Parsed<Q> parse(std::string_view text) {
  const auto base = [text] {
    if constexpr (std::is_same_v<decltype(Q::value), std::int64_t>)
      return parse_whole_in(dimension<Q>(), text);
    else
      return parse_in(dimension<Q>(), text);
  }();
  if (!base.value) return Parsed<Q>::failed(base.problem, base.hint);
  return {Q(*base.value)};
}

}  // namespace xt

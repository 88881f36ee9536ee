#include "costmodel/units/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>

namespace xt {
namespace {

struct Ambiguous {
  std::string_view unit;
  std::string_view hint;
};

// Spellings that mean two things to two people.
constexpr std::array ambiguous = {
    Ambiguous{"Gb/s", "write `Gbit/s` or `GB/s`"},
    Ambiguous{"Mb/s", "write `Mbit/s` or `MB/s`"},
    Ambiguous{"Tb/s", "write `Tbit/s` or `TB/s`"},
    Ambiguous{"Gbps", "write `Gbit/s` or `GB/s`"},
    Ambiguous{"GBps", "write `GB/s`"},
    Ambiguous{"Gb", "write `GB` or `GiB`"},
    Ambiguous{"Mb", "write `MB` or `MiB`"},
    Ambiguous{"KB", "write `kB` or `KiB`"},
    Ambiguous{"K", "write `kB` or `KiB`"},
    Ambiguous{"M", "write `MB` or `MiB`"},
    Ambiguous{"G", "write `GB` or `GiB`"},
    Ambiguous{"T", "write `TB` or `TiB`"},
    Ambiguous{"m", "write `min` or `ms`"},
    Ambiguous{"KB/s", "write `kB/s` or `KiB/s`"},
    Ambiguous{"TFLOPS", "write `TFLOP/s` for a rate, `TFLOP` for a count"},
    Ambiguous{"TFLOPs", "write `TFLOP/s` for a rate, `TFLOP` for a count"},
    Ambiguous{"PFLOPS", "write `PFLOP/s` for a rate, `PFLOP` for a count"},
    Ambiguous{"PFLOPs", "write `PFLOP/s` for a rate, `PFLOP` for a count"},
    Ambiguous{"GFLOPS", "write `GFLOP/s` for a rate, `GFLOP` for a count"},
    Ambiguous{"GFLOPs", "write `GFLOP/s` for a rate, `GFLOP` for a count"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_from(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

/// Length of the number `text` begins with, 0 if it begins with none.
std::size_t number_length(std::string_view text) {
  const std::size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  std::size_t at = digits_from(text, first);
  if (at == first) return 0;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]))
    at = digits_from(text, at + 1);
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const bool has_sign = at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-');
    const std::size_t exponent = at + (has_sign ? 2 : 1);
    const std::size_t end = digits_from(text, exponent);
    if (end > exponent) at = end;
  }
  return at;
}

bool has_leading_zero(std::string_view number) {
  if (!number.empty() && number[0] == '-') number.remove_prefix(1);
  return number.size() > 1 && number[0] == '0' && is_digit(number[1]);
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string listed(const Dimension& dimension) {
  std::string text;
  for (const Unit& unit : dimension.units)
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", unit.name);
  return text;
}

std::string example_hint(const Dimension& dimension) {
  return fmt::format("write {} with a unit, such as `{}`", dimension.name, dimension.example);
}

struct Amount {
  std::string_view number;
  const Unit* unit = nullptr;
};

Parsed<Amount> unknown_unit(const Dimension& wanted, std::string_view unit) {
  for (const Ambiguous& row : ambiguous)
    if (row.unit == unit)
      return Parsed<Amount>::failed(fmt::format("unit `{}` is ambiguous", unit),
                                    std::string(row.hint));
  for (const Dimension* other : dimensions())
    if (unit_named(*other, unit) != nullptr)
      return Parsed<Amount>::failed(
          fmt::format("`{}` measures {}, expected {}", unit, other->name, wanted.name),
          example_hint(wanted));
  for (const Unit& known : wanted.units)
    if (equal_but_for_case(known.name, unit))
      return Parsed<Amount>::failed(fmt::format("unknown unit `{}`", unit),
                                    fmt::format("did you mean `{}`?", known.name));
  return Parsed<Amount>::failed(fmt::format("unknown unit `{}`", unit),
                                fmt::format("units of {}: {}", wanted.name, listed(wanted)));
}

/// The number and the unit of `text`, both known to be well formed.
Parsed<Amount> split(const Dimension& wanted, std::string_view text) {
  const std::size_t length = number_length(text);
  if (length == 0)
    return Parsed<Amount>::failed(fmt::format("expected {}, found `{}`", wanted.name, text),
                                  example_hint(wanted));
  const std::string_view number = text.substr(0, length);
  std::string_view unit_name = text.substr(length);
  if (!unit_name.empty() && unit_name[0] == ' ') unit_name.remove_prefix(1);
  if (has_leading_zero(number))
    return Parsed<Amount>::failed(fmt::format("number `{}` has a leading zero", number));
  if (unit_name.empty())
    return Parsed<Amount>::failed(fmt::format("`{}` has no unit", text), example_hint(wanted));
  const Unit* unit = unit_named(wanted, unit_name);
  if (unit == nullptr) return unknown_unit(wanted, unit_name);
  if (number[0] == '-') return Parsed<Amount>::failed(fmt::format("`{}` is negative", text));
  return {Amount{number, unit}};
}

}  // namespace

Parsed<double> parse_number(std::string_view text) {
  if (text.empty() || number_length(text) != text.size())
    return Parsed<double>::failed(fmt::format("expected a number, found `{}`", text));
  if (has_leading_zero(text))
    return Parsed<double>::failed(fmt::format("number `{}` has a leading zero", text));
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || !std::isfinite(value))
    return Parsed<double>::failed(fmt::format("number `{}` is out of range", text));
  return {value};
}

Parsed<std::int64_t> parse_integer(std::string_view text) {
  using Result = Parsed<std::int64_t>;
  const std::size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() == first || digits_from(text, first) != text.size())
    return Result::failed(fmt::format("expected a whole number, found `{}`", text));
  if (has_leading_zero(text))
    return Result::failed(fmt::format("number `{}` has a leading zero", text));
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc())
    return Result::failed(fmt::format("number `{}` is out of range", text));
  return {value};
}

Parsed<double> parse_in(const Dimension& dimension, std::string_view text) {
  const Parsed<Amount> amount = split(dimension, text);
  if (!amount.value) return Parsed<double>::failed(amount.problem, amount.hint);
  Parsed<double> number = parse_number(amount.value->number);
  if (!number.value) return number;
  // Dividing by the inverse keeps decimal text exact: 12 / 1e6 is the double nearest 12 us.
  const double factor = amount.value->unit->factor;
  return {factor < 1 ? *number.value / std::nearbyint(1 / factor) : *number.value * factor};
}

Parsed<std::int64_t> parse_whole_in(const Dimension& dimension, std::string_view text) {
  using Result = Parsed<std::int64_t>;
  const Parsed<Amount> amount = split(dimension, text);
  if (!amount.value) return Result::failed(amount.problem, amount.hint);
  const Parsed<double> base = parse_in(dimension, text);
  if (!base.value) return Result::failed(base.problem, base.hint);
  constexpr double first_too_large = 9223372036854775808.0;  // 2^63
  if (*base.value >= first_too_large)
    return Result::failed(fmt::format("`{}` is more than can be counted", text));
  // A double holds whole numbers only up to 2^53; whole text stays in integers.
  const Parsed<std::int64_t> whole = parse_integer(amount.value->number);
  if (whole.value) return {*whole.value * static_cast<std::int64_t>(amount.value->unit->factor)};
  return {static_cast<std::int64_t>(std::nearbyint(*base.value))};
}

}  // namespace xt

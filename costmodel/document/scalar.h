#pragma once

// How each type that is one word of a file is read, written and named: truth values, counts,
// ratios, text, quantities, enumerators, and types that bring their own spelling.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/document/node.h"
#include "costmodel/units/dtype.h"
#include "costmodel/units/format.h"
#include "costmodel/units/parse.h"

namespace xt {

/// The spellings of a dtype; an enum with such a function is read and written by name.
///
/// Assumes: enumerators count from 0 in the order of the names
constexpr const auto& enum_names(DType) { return dtype_names; }

template <typename T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  enum_names(value);
};

/// A type with its own spelling, such as "auto" or a number.
template <typename T>
concept TextValue = requires(const T& value, std::string_view text) {
  { T::from_text(text) } -> std::same_as<Parsed<T>>;
  { value.text() } -> std::convertible_to<std::string>;
  { T::type_name } -> std::convertible_to<std::string_view>;
};

/// Reads (`read`), writes (`write`) and names (`type`) a `T` that is one scalar.
template <typename T>
struct Scalar;

template <typename T>
concept IsScalar = requires {
  { Scalar<T>::type() } -> std::convertible_to<std::string>;
};

/// "one of `a`, `b`, `c`".
std::string one_of_words(const std::vector<std::string_view>& words);

/// The complaint that `node` is not what was due.
std::string expected(std::string_view type, const Node& node);

/// The complaint about a word that is none of a closed set, and its remedy.
Parsed<std::size_t> position_among(const std::vector<std::string_view>& words,
                                   std::string_view name, const Node& node);

template <>
struct Scalar<bool> {
  static Parsed<bool> read(const Node& node, std::string_view name);
  static Node write(bool value) { return literal_node(value ? "true" : "false"); }
  static std::string type() { return "`true` or `false`"; }
};

template <>
struct Scalar<std::int64_t> {
  static Parsed<std::int64_t> read(const Node& node, std::string_view name);
  static Node write(std::int64_t value) { return literal_node(std::to_string(value)); }
  static std::string type() { return "a whole number"; }
};

template <std::integral T>
struct Scalar<T> {
  static Parsed<T> read(const Node& node, std::string_view name) {
    const auto wide = Scalar<std::int64_t>::read(node, name);
    if (!wide.value) return Parsed<T>::failed(wide.problem, wide.hint);
    if (!std::in_range<T>(*wide.value))
      return Parsed<T>::failed("number " + found(node) + " is out of range");
    return {static_cast<T>(*wide.value)};
  }
  static Node write(T value) { return literal_node(std::to_string(value)); }
  static std::string type() { return "a whole number"; }
};

template <>
struct Scalar<double> {
  static Parsed<double> read(const Node& node, std::string_view name);
  static Node write(double value);
  static std::string type() { return "a number"; }
};

template <>
struct Scalar<std::string> {
  static Parsed<std::string> read(const Node& node, std::string_view name);
  static Node write(std::string value) { return text_node(std::move(value)); }
  static std::string type() { return "text"; }
};

template <int B, int F, int T, typename Rep>
struct Scalar<Quantity<B, F, T, Rep>> {
  using Q = Quantity<B, F, T, Rep>;
  static Parsed<Q> read(const Node& node, std::string_view) {
    if (node.kind != Node::Kind::scalar) return Parsed<Q>::failed(expected(type(), node));
    return parse<Q>(node.text);
  }
  static Node write(Q value) { return text_node(exact(value)); }
  static std::string type() {
    return std::string(dimension<Q>().name) + ", such as `" + std::string(dimension<Q>().example) +
           "`";
  }
};

template <NamedEnum T>
struct Scalar<T> {
  static std::vector<std::string_view> words() {
    return {enum_names(T{}).begin(), enum_names(T{}).end()};
  }
  static Parsed<T> read(const Node& node, std::string_view name) {
    const auto position = position_among(words(), name, node);
    if (!position.value) return Parsed<T>::failed(position.problem, position.hint);
    return {static_cast<T>(*position.value)};
  }
  static Node write(T value) {
    return text_node(std::string(words().at(static_cast<std::size_t>(value))));
  }
  static std::string type() { return one_of_words(words()); }
};

template <TextValue T>
struct Scalar<T> {
  static Parsed<T> read(const Node& node, std::string_view) {
    if (node.kind != Node::Kind::scalar) return Parsed<T>::failed(expected(type(), node));
    return T::from_text(node.text);
  }
  static Node write(const T& value) {
    const std::string text = value.text();
    return reads_as_literal(text) ? literal_node(text) : text_node(text);
  }
  static std::string type() { return std::string(T::type_name); }
};

}  // namespace xt

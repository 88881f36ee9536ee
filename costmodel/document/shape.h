#pragma once

// Which of the composite shapes a type has; shared by the archives that visit `describe`.

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/document/node.h"

namespace xt {

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;

template <typename T>
inline constexpr bool is_pair = false;
template <typename A, typename B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

template <typename T>
inline constexpr bool is_named = false;
template <typename T>
inline constexpr bool is_named<Named<T>> = true;

/// The type that bounds and choices apply to: the element of lists and optionals, else `T`.
template <typename T>
struct Leaf {
  using type = T;
};
template <typename T>
struct Leaf<std::vector<T>> : Leaf<T> {};
template <typename T>
struct Leaf<std::optional<T>> : Leaf<T> {};

}  // namespace xt

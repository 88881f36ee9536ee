#pragma once

// The units people may write, one table per dimension; reading and printing share it.

#include <span>
#include <string_view>

#include "costmodel/units/quantity.h"

namespace xt {

/// A unit and how many base units it is worth.
struct Unit {
  std::string_view name;
  double factor = 1;
};

/// What one dimension is called, an example of it, and its units from small to large.
struct Dimension {
  std::string_view name;
  std::string_view example;
  std::span<const Unit> units;
};

/// The dimension of quantity `Q`; specialised for every quantity that can be written as text.
template <typename Q>
const Dimension& dimension();

template <>
const Dimension& dimension<Bytes>();
template <>
const Dimension& dimension<Flops>();
template <>
const Dimension& dimension<Seconds>();
template <>
const Dimension& dimension<BytesPerSecond>();
template <>
const Dimension& dimension<FlopsPerSecond>();
template <>
const Dimension& dimension<FlopsPerByte>();

/// Every dimension, to recognise a unit of the wrong one.
std::span<const Dimension* const> dimensions();

/// The unit spelt `name`, or null.
const Unit* unit_named(const Dimension& dimension, std::string_view name);

}  // namespace xt

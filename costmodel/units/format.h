#pragma once

// Quantities to text: `format` for people, with few digits; `exact` for files, read back unchanged.

#include <string>
#include <string_view>

#include "costmodel/units/quantity.h"
#include "costmodel/units/step_clock.h"
#include "costmodel/units/unit.h"

namespace xt {

/// `value` with `digits` significant digits, never in exponent form, without trailing zeros.
std::string significant(double value, int digits);

/// A capacity in B, KiB, MiB or GiB, four significant digits.
std::string format(Bytes bytes);
/// A count of flops, four significant digits.
std::string format(Flops flops);
/// A duration from ns to days, three significant digits.
std::string format(Seconds seconds);
/// A span of a timeline, as its seconds.
std::string format(Duration duration);
/// A rate in GB/s (MB/s or B/s when small), four significant digits.
std::string format(BytesPerSecond rate);
/// A rate in TFLOP/s (GFLOP/s or less when small), four significant digits.
std::string format(FlopsPerSecond rate);
/// An intensity in FLOP/B, four significant digits.
std::string format(FlopsPerByte intensity);

/// `base` units of `dimension` as the shortest text that `parse_in` reads back to the same double.
std::string exact_in(const Dimension& dimension, double base);

/// The shortest text from which `parse<Q>` gives `quantity` back unchanged.
template <int B, int F, int T>
std::string exact(Quantity<B, F, T> quantity) {
  return exact_in(dimension<Quantity<B, F, T>>(), quantity.value);
}
/// Bytes in the largest binary or decimal unit that divides them.
std::string exact(Bytes bytes);

}  // namespace xt

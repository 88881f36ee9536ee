#pragma once

// Numbers that know what they measure: bytes, flops, seconds and their ratios. Everything is held
// in base units; text with units is parsed and formatted elsewhere. Knows no file and no hardware.

#include <cmath>
#include <compare>
#include <cstdint>

namespace xt {

/// A value of dimension bytes^B · flops^F · seconds^T in base units.
///
/// Units:   bytes, flops (one multiply or one add), seconds
/// Assumes: `Rep` is int64 only for whole bytes, so that memory compares exactly with an allocator
template <int B, int F, int T, typename Rep = double>
struct Quantity {
  Rep value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-value); }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value + b.value);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
};

using Bytes = Quantity<1, 0, 0, std::int64_t>;
using Flops = Quantity<0, 1, 0>;
using Seconds = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<1, 0, -1>;
using FlopsPerSecond = Quantity<0, 1, -1>;
using FlopsPerByte = Quantity<-1, 1, 0>;

/// The plain ratio of two values of one dimension.
template <int B, int F, int T, typename Rep>
constexpr double operator/(Quantity<B, F, T, Rep> a, Quantity<B, F, T, Rep> b) {
  return static_cast<double>(a.value) / static_cast<double>(b.value);
}

/// The quotient of two values of different dimension.
template <int B1, int F1, int T1, typename R1, int B2, int F2, int T2, typename R2>
requires(B1 != B2 || F1 != F2 || T1 != T2) constexpr auto operator/(Quantity<B1, F1, T1, R1> a,
                                                                    Quantity<B2, F2, T2, R2> b) {
  return Quantity<B1 - B2, F1 - F2, T1 - T2>(static_cast<double>(a.value) /
                                             static_cast<double>(b.value));
}

/// The product of two values.
template <int B1, int F1, int T1, typename R1, int B2, int F2, int T2, typename R2>
constexpr auto operator*(Quantity<B1, F1, T1, R1> a, Quantity<B2, F2, T2, R2> b) {
  return Quantity<B1 + B2, F1 + F2, T1 + T2>(static_cast<double>(a.value) *
                                             static_cast<double>(b.value));
}

enum class Round : std::uint8_t { down, nearest, up };

/// `bytes` times a plain factor, rounded to whole bytes in the direction asked for.
inline Bytes scaled(Bytes bytes, double factor, Round round) {
  const double exact = static_cast<double>(bytes.value) * factor;
  const double whole = round == Round::down ? std::floor(exact)
                       : round == Round::up ? std::ceil(exact)
                                            : std::nearbyint(exact);
  return Bytes(static_cast<std::int64_t>(whole));
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) * 1024);
}
constexpr Bytes operator""_MiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) * 1024 * 1024);
}
constexpr Bytes operator""_GiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) * 1024 * 1024 * 1024);
}
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
}  // namespace literals

}  // namespace xt

#pragma once

// Lanes as a set that is small enough to be walked for every event. Private to sim/.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "costmodel/ir/schedule.h"

namespace xt {

/// Some of the lanes, walked in their order.
class LaneSet {
 public:
  constexpr LaneSet() = default;

  class Iterator {
   public:
    constexpr explicit Iterator(unsigned rest) : rest_(rest) {}
    constexpr std::size_t operator*() const {
      return static_cast<std::size_t>(std::countr_zero(rest_));
    }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    unsigned rest_;
  };

  constexpr void insert(std::size_t lane) { insert(LaneSet(1u << lane)); }
  constexpr void insert(LaneSet lanes) { bits_ = static_cast<std::uint8_t>(bits_ | lanes.bits_); }
  constexpr void erase(std::size_t lane) {
    bits_ = static_cast<std::uint8_t>(bits_ & ~(1u << lane));
  }
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }

 private:
  constexpr explicit LaneSet(unsigned bits) : bits_(static_cast<std::uint8_t>(bits)) {}

  std::uint8_t bits_ = 0;
  static_assert(n_lanes <= 8);
};

}  // namespace xt

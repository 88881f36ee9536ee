#pragma once

// Whether two runs computed the same bits.

#include <cstddef>
#include <cstdint>

namespace xt {

/// A digest of bytes, in the order in which they were added.
///
/// Source:  Fowler, Noll, Vo, FNV-1a
class BitDigest {
 public:
  void add(const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ULL;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037ULL;
};

}  // namespace xt

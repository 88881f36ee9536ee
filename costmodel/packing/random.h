#pragma once

// Numbers that look random and follow from a seed alone. The same bits come with every compiler and
// standard library, so planner and ranks draw the same packs wherever they run.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xt {

/// What is drawn; each purpose has numbers of its own under one seed.
enum class Purpose : std::uint8_t { lengths, samples, packs };

/// A sequence of random numbers.
///
/// Source:  Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", OOPSLA
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  Random(std::uint64_t seed, Purpose purpose);

  /// 64 random bits.
  std::uint64_t bits();
  /// A whole number from 0 to n − 1.
  ///
  /// Assumes: n is far below 2^64, so that the remainder favours no number
  std::uint64_t below(std::uint64_t n) { return bits() % n; }
  /// A number above 0 and below 1.
  double unit();

 private:
  std::uint64_t state_;
};

/// The numbers 0 to n − 1 in random order.
///
/// Assumes: n fits into 32 bits
/// Source:  Durstenfeld 1964, "Algorithm 235: Random permutation", CACM 7(7)
std::vector<std::uint32_t> shuffled(std::size_t n, Random& random);

}  // namespace xt

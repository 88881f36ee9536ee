#include "executor/checkpoints/element_digest.h"

#include <bit>

namespace xt {
namespace {

// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", OOPSLA
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;

constexpr std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t element_digest(std::string_view name, std::int64_t first,
                             std::span<const float> elements) {
  std::uint64_t position = text_digest(name) + static_cast<std::uint64_t>(first) * golden;
  std::uint64_t sum = 0;
  for (const float element : elements) {
    position += golden;
    sum += scrambled(position ^ scrambled(std::bit_cast<std::uint32_t>(element) + golden));
  }
  return sum;
}

std::uint64_t text_digest(std::string_view text) { return text_digest(text, golden); }

std::uint64_t text_digest(std::string_view text, std::uint64_t before) {
  std::uint64_t digest = before;
  for (const char c : text) digest = scrambled(digest + static_cast<unsigned char>(c) + golden);
  return digest;
}

}  // namespace xt

#pragma once

// Index files of tokens as bytes, for tests of what reads them.

#include <cstdint>
#include <string>
#include <vector>

namespace xt::test {

template <typename Number>
void append_number(std::string& to, Number value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// An index of documents of these lengths, as Megatron writes it: each one sequence.
inline std::string index_file(std::uint8_t code, std::int64_t width,
                              const std::vector<std::int32_t>& lengths) {
  std::string index("MMIDIDX\0\0", 9);
  append_number<std::uint64_t>(index, 1);
  append_number<std::uint8_t>(index, code);
  append_number<std::uint64_t>(index, lengths.size());
  append_number<std::uint64_t>(index, lengths.size() + 1);
  for (const std::int32_t length : lengths) append_number(index, length);
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths) {
    append_number(index, pointer);
    pointer += length * width;
  }
  for (std::size_t i = 0; i <= lengths.size(); ++i)
    append_number(index, static_cast<std::int64_t>(i));
  return index;
}

}  // namespace xt::test

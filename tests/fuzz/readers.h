#pragma once

// The readers of files that come from outside, as functions of bytes: fuzzers call them with bytes
// of their own making, a test with those of the corpus.

#include <iosfwd>
#include <span>
#include <string_view>

namespace xt {

/// A reader by the name of its folder in the corpus.
struct FuzzedReader {
  std::string_view name;
  /// Reads `bytes` as far as a program would; what is read is dropped.
  ///
  /// Throws: InputError if they are not such a file, and nothing else
  void (*read)(std::string_view bytes);
};

/// The name in the words of tests.
void PrintTo(const FuzzedReader& reader, std::ostream* out);

/// All of them.
std::span<const FuzzedReader> fuzzed_readers();

/// Whether `reader` takes `bytes`; false where it refuses them, and says why in words that can be
/// shown.
bool accepts(const FuzzedReader& reader, std::string_view bytes);

}  // namespace xt

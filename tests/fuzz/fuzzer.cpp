// One reader under libFuzzer: whatever the bytes are, it takes them or refuses them.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const xt::FuzzedReader& reader : xt::fuzzed_readers())
    if (reader.name == XT_FUZZED_READER)
      (void)xt::accepts(reader, {reinterpret_cast<const char*>(data), size});
  return 0;
}

// What fuzzers found worth keeping goes through the same functions in every build.

#include <gtest/gtest.h>

#include <filesystem>

#include "costmodel/io/files.h"
#include "tests/fuzz/readers.h"

namespace xt {
namespace {

namespace fs = std::filesystem;

class Corpus : public testing::TestWithParam<FuzzedReader> {
 protected:
  static fs::path folder() { return fs::path(XT_CORPUS) / GetParam().name; }
};

// A reader that takes everything, or nothing, was not fuzzed.
// Seeds have names, what a fuzzer found has a digest for one: where no seed is taken any more, as
// the format has moved on, a fuzzer sees little of the reader.
TEST_P(Corpus, HasSeedsThatItsReaderTakesAndFilesThatItRefuses) {
  int taken = 0, refused = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder())) {
    const bool is_seed = entry.path().filename().string().size() != 40;
    if (!accepts(GetParam(), read_file(entry.path())))
      ++refused;
    else if (is_seed)
      ++taken;
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

// A file that is cut short anywhere is refused, unless what is left is whole.
TEST_P(Corpus, HasFilesThatMayBeCutAnywhere) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder())) {
    const std::string bytes = read_file(entry.path());
    for (std::size_t parts = 1; parts < 8; ++parts)
      (void)accepts(GetParam(), std::string_view(bytes).substr(0, bytes.size() * parts / 8));
  }
}

std::string name_of(const testing::TestParamInfo<FuzzedReader>& info) {
  return std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus,
                         testing::ValuesIn(fuzzed_readers().begin(), fuzzed_readers().end()),
                         name_of);

TEST(CorpusFolder, IsSmallAndBelongsToReaders) {
  std::uintmax_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(XT_CORPUS)) {
    const std::string name = entry.path().filename().string();
    bool is_read = false;
    for (const FuzzedReader& reader : fuzzed_readers()) is_read = is_read || reader.name == name;
    EXPECT_TRUE(is_read) << name;
    for (const fs::directory_entry& file : fs::directory_iterator(entry.path()))
      bytes += file.file_size();
  }
  EXPECT_LE(bytes, 300'000u);
}

}  // namespace
}  // namespace xt

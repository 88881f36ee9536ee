#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/data/bigram_entropy.h"
#include "executor/data/documents.h"
#include "executor/data/packs.h"
#include "executor/data/sources.h"
#include "tests/costmodel/io/index_file.h"
#include "tests/executor/temporary_folder.h"

namespace xt {
namespace {

using test::append_number;
using test::index_file;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::unique_ptr<Documents> load(const fs::path& path) {
  return load_documents(std::vector<fs::path>{path});
}

template <typename Action>
std::string problem(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

std::vector<std::int64_t> tokens_of(const Documents& documents, std::int64_t document) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(documents.length(document)));
  documents.copy(document, 0, tokens);
  return tokens;
}

std::vector<std::string> texts(const Documents& documents) {
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    result.emplace_back();
    for (const std::int64_t token : tokens_of(documents, i))
      result.back() += static_cast<char>(token);
  }
  return result;
}

/// Documents 0, 1, … of these lengths, whose tokens count up from 100 · document.
std::shared_ptr<Documents> counted(const std::vector<int>& lengths) {
  auto documents = std::make_shared<TokensInMemory<std::int32_t>>();
  std::int32_t first = 0;
  for (const int length : lengths) {
    documents->begin_document();
    for (int i = 0; i < length; ++i) documents->append(first + i);
    first += 100;
  }
  return documents;
}

TEST(Documents, OfATextFileEndAfterBlankLines) {
  const TemporaryFolder folder;
  write(folder.path() / "a.txt", "one\ntwo\n\n\nthree\n\nfour");
  EXPECT_THAT(texts(*load(folder.path() / "a.txt")),
              ElementsAre("one\ntwo\n\n\n", "three\n\n", "four"));
}

TEST(Documents, OfAFolderAreItsTextFilesInOrder) {
  const TemporaryFolder folder;
  write(folder.path() / "b.md", "b\n\nb");
  write(folder.path() / "a" / "z.txt", "z");
  write(folder.path() / "image", std::string("x\0y", 3));
  write(folder.path() / "empty", "");
  write(folder.path() / ".git" / "config", "hidden");
  EXPECT_THAT(texts(*load(folder.path())), ElementsAre("z", "b\n\nb"));
}

TEST(Documents, OfTokenLinesAreTheirInputIds) {
  const TemporaryFolder folder;
  write(folder.path() / "a.jsonl",
        "{\"input_ids\": [5, 70000]}\n{\"input_ids\": [], \"x\": 1}\n{\"input_ids\": [9]}\n");
  const auto documents = load(folder.path() / "a.jsonl");
  ASSERT_EQ(documents->size(), 2);
  EXPECT_THAT(tokens_of(*documents, 0), ElementsAre(5, 70000));
  EXPECT_THAT(tokens_of(*documents, 1), ElementsAre(9));
}

TEST(Documents, OfBadTokenLinesAreRefusedWithTheLine) {
  const TemporaryFolder folder;
  write(folder.path() / "a.jsonl", "{\"input_ids\": [5]}\n{\"input_ids\": [-1]}\n");
  EXPECT_THAT(problem([&] { load(folder.path() / "a.jsonl"); }), HasSubstr("a.jsonl:2:"));
  write(folder.path() / "b.jsonl", "{\"tokens\": [5]}\n");
  EXPECT_THAT(problem([&] { load(folder.path() / "b.jsonl"); }), HasSubstr("input_ids"));
}

TEST(Documents, OfMegatronFilesAreReadThroughTheirIndex) {
  const TemporaryFolder folder;
  std::string tokens;
  for (const int token : {7, 8, 65535, 9}) append_number(tokens, static_cast<std::uint16_t>(token));
  write(folder.path() / "d.bin", tokens);
  write(folder.path() / "d.idx", index_file(8, 2, {3, 0, 1}));
  for (const char* name : {"d.bin", "d.idx", ""}) {
    const auto documents = load(folder.path() / name);
    ASSERT_EQ(documents->size(), 2) << name;
    EXPECT_THAT(tokens_of(*documents, 0), ElementsAre(7, 8, 65535));
    EXPECT_THAT(tokens_of(*documents, 1), ElementsAre(9));
  }
}

TEST(Documents, OfDamagedMegatronFilesAreRefused) {
  const TemporaryFolder folder;
  const fs::path bin = folder.path() / "d.bin";
  const auto with = [&](const std::string& index) {
    write(folder.path() / "d.idx", index);
    return problem([&] { load(bin); });
  };
  write(bin, "1234");
  const std::string good = index_file(4, 4, {1});
  EXPECT_EQ(with(good), "none");
  EXPECT_THAT(with(index_file(4, 4, {2})), HasSubstr("d.bin: error: has 4 bytes"));
  EXPECT_THAT(with("not an index, but long"), HasSubstr("does not begin with `MMIDIDX`"));
  EXPECT_THAT(with(good.substr(0, good.size() - 1)), HasSubstr("ends too early"));
  EXPECT_THAT(with("x"), HasSubstr("ends too early"));
  EXPECT_THAT(with(index_file(7, 4, {1})), HasSubstr("type code 7"));
  EXPECT_THAT(with(index_file(4, 8, {1, 0})), HasSubstr("begin at byte 8, not 4"));
  EXPECT_THAT(with(index_file(4, 4, {-1})), HasSubstr("of -1 tokens"));
  fs::remove(folder.path() / "d.idx");
  EXPECT_THAT(problem([&] { load(bin); }), HasSubstr("d.idx: error: cannot be read"));
}

TEST(Documents, ThatAreMissingOrEmptyAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(problem([&] { load(folder.path() / "no.txt"); }),
              HasSubstr("no.txt: error: cannot be read: No such file"));
  EXPECT_THAT(problem([&] { load(folder.path()); }), HasSubstr("holds no text"));
  write(folder.path() / "zero", std::string("a\0", 2));
  EXPECT_THAT(problem([&] { load(folder.path() / "zero"); }), HasSubstr("not text"));
}

TEST(Pack, ShiftsLabelsInsideEachPiece) {
  const Pack pack = pack_of({{1, 2, 3}, {4}, {5, 6}});
  EXPECT_THAT(pack.tokens, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(pack.labels, ElementsAre(2, 3, -100, -100, 6, -100));
  EXPECT_THAT(pack.boundaries, ElementsAre(0, 3, 4, 6));
  EXPECT_THAT(positions(pack), ElementsAre(0, 1, 2, 0, 0, 1));
  EXPECT_EQ(sum_squared_lengths(pack), 9 + 1 + 4);
  EXPECT_EQ(longest_sample(pack), 3);
  EXPECT_EQ(n_valid_labels(pack.labels), 3);
}

TEST(Pack, IsPaddedByPiecesThatNothingIsLearnedFrom) {
  Pack pack = pack_of({{1, 2, 3}});
  pad(pack, 10, 4);
  EXPECT_THAT(pack.tokens, ElementsAre(1, 2, 3, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(pack.boundaries, ElementsAre(0, 3, 7, 10));
  EXPECT_EQ(n_valid_labels(pack.labels), 2);
  EXPECT_EQ(pack.labels.size(), 10u);
  Pack long_pack = pack_of({{1}});
  pad(long_pack, 513, 1000);
  EXPECT_THAT(long_pack.boundaries, ElementsAre(0, 1, 257, 513));
  Pack full = pack_of({{1, 2}});
  pad(full, 2, 2);
  EXPECT_EQ(full, pack_of({{1, 2}}));
}

TEST(Samples, AreDocumentsCutWhereTheyAreLonger) {
  const Samples samples(counted({5, 3, 7}), 3);
  EXPECT_THAT(samples.lengths(), ElementsAre(3, 2, 3, 3, 3, 1));
  std::vector<std::int64_t> tokens(2);
  samples.copy(1, 0, tokens);
  EXPECT_THAT(tokens, ElementsAre(3, 4));
  samples.copy(4, 1, tokens);
  EXPECT_THAT(tokens, ElementsAre(204, 205));
  EXPECT_EQ(samples.document_of(1), 0);
  EXPECT_EQ(samples.document_of(2), 1);
  EXPECT_EQ(samples.document_of(5), 2);
}

std::vector<std::int64_t> all_tokens(const Packs& packs) {
  std::vector<std::int64_t> seen;
  for (std::int64_t i = 0; i < packs.size(); ++i) {
    const Pack pack = packs.pack(i);
    EXPECT_EQ(pack.tokens.size(), 8u);
    EXPECT_EQ(pack.labels.size(), 8u);
    EXPECT_EQ(pack.boundaries.front(), 0);
    EXPECT_EQ(pack.boundaries.back(), 8);
    seen.insert(seen.end(), pack.tokens.begin(), pack.tokens.end());
  }
  std::ranges::sort(seen);
  return seen;
}

TEST(Packs, ThatCutHoldEveryTokenOnceButTheRest) {
  const std::vector<int> lengths = {3, 1, 17, 5, 9, 2};  // 37 tokens: 4 packs of 8 and 5 left
  const Packs packs(counted(lengths), {8, 8, PackLevel::hard, 1}, 1000);
  ASSERT_EQ(packs.size(), 4);
  const std::vector<std::int64_t> seen = all_tokens(packs);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(packs.fill_ratio(), 1);
}

TEST(Packs, ThatCutNothingHoldEveryTokenAndArePadded) {
  const std::vector<int> lengths = {3, 1, 17, 5, 9, 2};
  const Packs packs(counted(lengths), {8, 8, PackLevel::soft, 1}, 1000);
  std::vector<std::int64_t> seen = all_tokens(packs);
  EXPECT_EQ(packs.fill_ratio(), 37.0 / static_cast<double>(seen.size()));
  const auto n_padding = std::ssize(seen) - 37;
  EXPECT_GT(n_padding, 0);
  std::int64_t n_told = 0;
  for (std::int64_t i = 0; i < packs.size(); ++i) n_told += packs.pack(i).padding;
  EXPECT_EQ(n_told, n_padding);
  EXPECT_EQ(std::ranges::count(seen, 0), n_padding + 1);  // one token is 0
  seen.erase(seen.begin(), seen.begin() + n_padding);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(seen.size(), 37u);
}

// Both programs pack by one function: what the planner simulates is what a run gets.
TEST(Packs, AreThoseThatThePlannerDraws) {
  const std::vector<int> lengths = {3, 1, 8, 5, 8, 2, 7, 4};
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard}) {
    PackingOptions options;
    options.pack_length = 8;
    options.level = level;
    options.seed = 5;
    const Packs packs(counted(lengths), {8, 8, level, 5}, 1000);
    const std::vector<std::int64_t> drawn(lengths.begin(), lengths.end());
    EXPECT_EQ(packs.layouts(), pack_samples(drawn, options));
    for (const PackedSample& piece : packs.layouts()[0].samples) {
      const Pack pack = packs.pack(0);
      EXPECT_THAT(pack.tokens, testing::Contains(100 * piece.sample + piece.first));
    }
  }
}

TEST(Packs, HoldNoPieceLongerThanASampleOfThePlan) {
  for (const PackLevel level : {PackLevel::soft, PackLevel::hard}) {
    const Packs packs(counted({20, 30}), {8, 3, level, 1}, 1000);
    for (std::int64_t i = 0; i < packs.size(); ++i) EXPECT_LE(longest_sample(packs.pack(i)), 3);
  }
}

TEST(Packs, OfTooLittleDataAreRefused) {
  EXPECT_THAT(problem([] {
                Packs(counted({7}), {8, 8, PackLevel::hard, 1}, 1000);
              }),
              HasSubstr("the data has 7 tokens, less than one pack of 8"));
}

TEST(Packs, RefuseTokensOutsideTheVocabulary) {
  const Packs packs(counted({8}), {8, 8, PackLevel::hard, 1}, 5);
  EXPECT_THAT(problem([&] { (void)packs.pack(0); }), HasSubstr("token 5 in document 0"));
}

TEST(BigramEntropy, IsZeroWhereTheNextTokenIsCertain) {
  EXPECT_EQ(bigram_entropy(*counted({10, 1, 5})), 0);
}

TEST(BigramEntropy, OfTwoEquallyLikelySuccessorsIsLnTwoForTheFirstOnly) {
  TokensInMemory<std::int32_t> documents;
  // After 1 comes 2 or 3, equally often; after both comes 1: (2 ln 2 + 2 · 0) / 4.
  for (const std::int32_t token : {1, 2, 1, 3, 1}) documents.append(token);
  EXPECT_NEAR(bigram_entropy(documents), std::log(2.0) / 2, 1e-15);
}

}  // namespace
}  // namespace xt

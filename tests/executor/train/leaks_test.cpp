// A step leaves behind what it found: by the allocator's count to the byte, whatever it exchanged,
// swapped, recomputed or wrote. scripts/accept.sh leaks asks the same of five hundred steps, and of
// the memory that the system has given.

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

class Leaks : public testing::Test {
 protected:
  Leaks() {
    std::string text;
    for (int line = 0; line < 400; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(data_, text, Overwrite::allow);
  }

  /// Of each step of `plan`, a number of its metrics.
  std::vector<std::int64_t> numbers(const char* key) const {
    std::vector<std::int64_t> values;
    for_each_json_line(plan_ / metrics_file_name,
                       [&](const Json& line) { values.push_back(line.at(key).as_int()); });
    return values;
  }
  void expect_none(const PlanChoices& choices) {
    make_plan(plan_, choices);
    const Answer answer =
        xt_run(folder_.path(), {"train", plan_.string(), "--data", data_, "--steps", "40", "-q",
                                "--threads", "1", "--checkpoint-every", "5"});
    ASSERT_EQ(answer.exit_code, 0) << answer.err;
    const std::vector<std::int64_t> allocated = numbers("allocated_memory_bytes");
    ASSERT_EQ(allocated.size(), 40u);
    EXPECT_GT(allocated.front(), 0);
    EXPECT_EQ(std::ranges::count(allocated, allocated.front()), std::ssize(allocated));
    const std::vector<std::int64_t> reserved = numbers("reserved_memory_bytes");
    EXPECT_EQ(reserved.back(), reserved[19]) << "what the first half took is enough for the second";
  }

  TemporaryFolder folder_;
  std::filesystem::path plan_ = folder_.path() / "plan";
  std::string data_ = (folder_.path() / "text.txt").string();
};

TEST_F(Leaks, NoneOfOneRankThatAccumulates) { expect_none({.gradient_accumulation = 2}); }

TEST_F(Leaks, NoneWhereRowsAreExchangedAndInputsSwapped) {
  expect_none({.ranks = 2, .expert_parallel = 2, .swaps = true});
}

TEST_F(Leaks, NoneOfLatentAttentionWithReplicas) {
  expect_none({.ranks = 2, .shard_ranks = 1, .has_router_bias = true});
}

}  // namespace
}  // namespace xt

// The devices that xt-run trains on, from the outside: the same losses, or a refusal that says why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_lines.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/train/program.h"

namespace xt {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  Devices() {
    std::string text;
    for (int line = 0; line < 200; ++line)
      text += "the quick brown fox " + std::to_string(line % 7) + " jumps over the lazy dog\n";
    write_file(folder_.path() / "text.txt", text, Overwrite::allow);
  }

  Answer train(const std::string& device, std::vector<std::string> further = {}) {
    std::vector<std::string> arguments = {"train",    plan_.string(),
                                          "--data",   (folder_.path() / "text.txt").string(),
                                          "--steps",  "6",
                                          "--device", device,
                                          "--force"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return xt_run(folder_.path(), std::move(arguments));
  }
  std::vector<double> losses_on(const std::string& device) {
    const Answer answer = train(device);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    std::vector<double> values;
    for_each_json_line(plan_ / metrics_file_name,
                       [&](const Json& line) { values.push_back(line.at("loss").as_double()); });
    return values;
  }
  /// Whether this machine can train on `kind`.
  bool has(const std::string& kind) {
    const Answer answer = xt_run(folder_.path(), {"devices", "--json"});
    const Json listing = parse_json(answer.out);
    return std::ranges::any_of(listing.at("devices").items(),
                               [&](const Json& one) { return one.at("kind").as_text() == kind; });
  }

  TemporaryFolder folder_;
  std::filesystem::path plan_ = folder_.path() / "plan";
};

TEST_F(Devices, GiveTheSameLossesByTheKernelsOfGpus) {
  make_plan(plan_, {.ranks = 2, .expert_parallel = 2, .gradient_accumulation = 2});
  const std::vector<double> expected = losses_on("cpu"), found = losses_on("cpu-aten");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
}

TEST_F(Devices, AreRefusedByNameWhereThereIsNone) {
  make_plan(plan_, {});
  const Answer answer = train("rocm");
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("--device is `rocm`"),
                                HasSubstr("devices are: `cpu`, `cpu-aten`, `cuda`")));
}

TEST_F(Devices, OfCudaAreRefusedWithTheReasonBeforeAnythingStarts) {
  if (has("cuda")) GTEST_SKIP() << "this machine has a GPU";
  make_plan(plan_, {.ranks = 2});
  for (const auto& further : {std::vector<std::string>{}, {"--dry-run"}}) {
    const Answer answer = train("cuda", further);
    EXPECT_EQ(answer.exit_code, 2);
    EXPECT_THAT(answer.err, AnyOf(HasSubstr("there is no NVIDIA driver"),
                                  HasSubstr("the driver shows no device"),
                                  HasSubstr("was built without CUDA")));
    EXPECT_THAT(answer.err, AllOf(HasSubstr("hint: "), HasSubstr("nothing was trained")));
    EXPECT_FALSE(std::filesystem::exists(plan_ / metrics_file_name));
  }
}

#ifdef XT_CUDA_PLUGIN
TEST_F(Devices, OfCudaLoadWithAllThatTheyNeed) {
  const Answer answer = xt_run(folder_.path(), {"devices"});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_THAT(answer.out, AllOf(HasSubstr("\ncuda "), testing::Not(HasSubstr("cannot be loaded"))));
}
#endif

}  // namespace
}  // namespace xt

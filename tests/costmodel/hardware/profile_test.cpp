#include "costmodel/hardware/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "costmodel/document/reader.h"
#include "costmodel/document/writer.h"
#include "costmodel/hardware/collective.h"
#include "costmodel/hardware/overlay.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"

namespace xt {
namespace {

using testing::HasSubstr;

const std::filesystem::path folder = std::filesystem::path(XT_SOURCE_DIR) / "profiles";

Profile load(const std::string& name) {
  return read<Profile>(read_yaml(folder / (name + ".yaml")));
}

// The text of a profile with one stretch of it replaced.
Profile load_changed(const std::string& from, const std::string& to) {
  std::string text = read_file(folder / "h800_sxm.yaml");
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return read<Profile>(parse_yaml({"changed.yaml", text}));
}

std::string problems_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no problem";
}

class EveryProfile : public testing::TestWithParam<std::string> {
 protected:
  const Profile profile = load(GetParam());
};

TEST_P(EveryProfile, HasTheNameOfItsFile) { EXPECT_EQ(profile.name, GetParam()); }

TEST_P(EveryProfile, IsSmallerThan100Kilobytes) {
  EXPECT_LT(std::filesystem::file_size(folder / (GetParam() + ".yaml")), 100'000U);
}

TEST_P(EveryProfile, ReadsBackEqualAndWritesTheSameBytesAgain) {
  const std::string text = to_yaml(write(profile));
  const auto again = read<Profile>(parse_yaml({"again.yaml", text}));
  EXPECT_EQ(again, profile);
  EXPECT_EQ(to_yaml(write(again)), text);
  EXPECT_EQ(digest(again), digest(profile));
}

TEST_P(EveryProfile, SaysOfEveryNumberWhereItCameFrom) {
  const auto entries = provenances(profile);
  EXPECT_GT(entries.size(), 30U);
  for (const auto& [path, from] : entries) {
    EXPECT_TRUE(profile.sources.find(from.source)) << path;
    if (from.grade == Grade::estimate || from.grade == Grade::derived) {
      EXPECT_TRUE(from.note && !from.note->empty()) << path;
    }
  }
}

TEST_P(EveryProfile, UsesEverySourceItNames) {
  const auto entries = provenances(profile);
  for (const auto& [key, text] : profile.sources.entries)
    EXPECT_TRUE(std::ranges::any_of(entries, [&](const auto& e) { return e.from.source == key; }))
        << key;
}

TEST_P(EveryProfile, SaysWhatStandsBesideTheAllocatorAndHowFarItSpreads) {
  ASSERT_TRUE(profile.reserved_over_allocated_p95);
  EXPECT_GT(profile.reserved_over_allocated_p95->value, profile.reserved_over_allocated.value);
  ASSERT_TRUE(profile.device_context);
  EXPECT_LT(profile.device_context->value / profile.memory.value, 0.05);
  ASSERT_TRUE(profile.communicator_memory);
  EXPECT_LT(profile.communicator_memory->value / profile.memory.value, 0.05);
}

TEST_P(EveryProfile, NeverReachesMoreThanAPeak) {
  for (const auto& [x, y] : profile.attention.length.curve.points) EXPECT_LE(y, 1) << x;
  for (const auto& [x, y] : profile.attention_backward.length.curve.points) EXPECT_LE(y, 1) << x;
  for (const auto& [x, y] : profile.memory_bound.curve.points) EXPECT_LE(y, 1) << x;
  EXPECT_LE(profile.matmul.base.value, 1);
  EXPECT_LE(profile.grouped_matmul.base.value, profile.matmul.base.value);
}

TEST_P(EveryProfile, LargerCollectivesInsideANodeTakeLonger) {
  const auto ranks = static_cast<std::int32_t>(profile.ranks_per_node());
  for (const Kernel kernel :
       {Kernel::all_gather, Kernel::reduce_scatter, Kernel::all_reduce, Kernel::all_to_all}) {
    const double small = collective_time(profile, kernel, {ranks, 1}, 32e6).moving.value;
    const double large = collective_time(profile, kernel, {ranks, 1}, 512e6).moving.value;
    EXPECT_LT(small, large) << name(kernel);
  }
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const auto& path : files_in(folder, ".yaml")) names.push_back(path.stem().string());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Profiles, EveryProfile, testing::ValuesIn(profile_names()),
                         [](const auto& instance) { return instance.param; });

TEST(Profile, ComparesPackagesOnTheBasisOfThePublishedComparison) {
  const Profile h800 = load("h800_sxm");
  const Profile a3 = load("ascend_a3");
  const double package =
      static_cast<double>(a3.ranks_per_device) * a3.peak(DType::bf16)->value.value;
  EXPECT_DOUBLE_EQ(package, 800e12);
  EXPECT_DOUBLE_EQ(h800.peak(DType::bf16)->value.value, 989.4e12);
}

TEST(Profile, PlacesGroupsByTheirSpanOfRanks) {
  const Profile a3 = load("ascend_a3");
  EXPECT_EQ(scope(a3, {2, 1}), Scope::device);
  EXPECT_EQ(scope(a3, {8, 2}), Scope::node);
  EXPECT_EQ(scope(a3, {16, 1}), Scope::node);
  EXPECT_EQ(scope(a3, {2, 16}), Scope::domain);
  EXPECT_EQ(scope(a3, {1024, 1}), Scope::network);
  EXPECT_EQ(ranks_in_a_node(a3, {64, 1}), 16);
  EXPECT_EQ(ranks_in_a_node(a3, {4, 16}), 1);
}

TEST(Profile, ReproducesAMeasuredCollective) {
  // One A3 node, 16 dies, 671088640 B all-gathered in 3080.2 us: 5 us and 204.6 GB/s of bus.
  const CollectiveTime time =
      collective_time(load("ascend_a3"), Kernel::all_gather, {16, 1}, 671088640);
  EXPECT_NEAR(time.latency.value + time.moving.value, 3080.2e-6, 1e-6);
}

TEST(Profile, TakesGroupSizesBetweenMeasuredOnesByTheLogarithmOfTheirRanks) {
  // Domain exchanges: 95 GB/s over 32 ranks and 81 over 128; 64 is half way.
  const CollectiveTime time =
      collective_time(load("ascend_a3"), Kernel::all_to_all, {64, 1}, 469762048);
  EXPECT_NEAR(time.moving.value, 469762048.0 * 63 / 64 / 88e9, 1e-9);
}

TEST(Profile, BindsUnmeasuredNetworkCollectivesByTheScaleOutLink) {
  Profile profile = load("h800_sxm");
  std::erase_if(profile.collectives, [](const auto& c) { return c.scope == Scope::network; });
  const CollectiveTime time = collective_time(profile, Kernel::all_to_all, {16, 1}, 1e9);
  EXPECT_NEAR(time.moving.value, 1e9 * 15 / 16 / 50e9, 1e-9);
  EXPECT_TRUE(covers(profile, {16, 1}));
  profile.scale_out.reset();
  EXPECT_FALSE(covers(profile, {16, 1}));
  EXPECT_TRUE(covers(profile, {8, 1}));
}

TEST(Profile, ARingLeavesANodeOverTheLinksOfAllItsRanksThere) {
  const Profile profile = load("h800_sxm");
  const auto rate = [&](const GroupShape& group) {
    const double moved = 1e9 * (group.size - 1) / group.size;
    return moved / collective_time(profile, Kernel::all_gather, group, 1e9).moving.value;
  };
  EXPECT_GT(rate({16, 1}), 150e9);            // eight links a node, more than NVLink carries
  EXPECT_NEAR(rate({16, 4}), 2 * 50e9, 1e3);  // two ranks a node
  EXPECT_NEAR(rate({16, 8}), 50e9, 1e3);      // one
}

TEST(Profile, RefusesABareNumber) {
  EXPECT_THAT(problems_of([] { load_changed("value: 3.35 TB/s", "value: 3.35"); }),
              HasSubstr("3.35"));
}

TEST(Profile, RefusesASourceItDoesNotName) {
  EXPECT_THAT(problems_of([] { load_changed("source: azure", "source: azur"); }),
              HasSubstr("unknown source `azur`"));
}

TEST(Profile, RefusesAnEstimateWithoutANote) {
  EXPECT_THAT(problems_of([] { load_changed(", note: 2 TB in a node of 8}", "}"); }),
              HasSubstr("a number graded `estimate` has no note"));
}

TEST(Profile, RefusesUnknownKeysAndGrades) {
  EXPECT_THAT(problems_of([] { load_changed("grade: measured", "grade: guessed"); }),
              HasSubstr("unknown grade `guessed`"));
  EXPECT_THAT(problems_of([] { load_changed("latency: {value", "latencies: {value"); }),
              HasSubstr("unknown key `latencies`"));
}

TEST(Profile, RefusesPointsThatDoNotAscend) {
  EXPECT_THAT(problems_of([] { load_changed("[64, 0.179]", "[640, 0.18]"); }),
              HasSubstr("does not ascend"));
}

TEST(Profile, RefusesAShareAboveOne) {
  EXPECT_THAT(
      problems_of([] { load_changed("all_to_all: {value: 0.15", "all_to_all: {value: 15"); }),
      HasSubstr("share is 15, must be at most 1"));
}

TEST(Profile, RefusesASpreadBelowTheMedian) {
  EXPECT_THAT(problems_of([] {
                load_changed("reserved_over_allocated_p95: {value: 1.24",
                             "reserved_over_allocated_p95: {value: 1.04");
              }),
              HasSubstr("ratio is 1.04, must be at least the median's 1.05"));
}

TEST(Profile, RefusesAMachineWithoutBandwidth) {
  EXPECT_THAT(problems_of([] { load_changed("value: 3.35 TB/s", "value: 0 TB/s"); }),
              HasSubstr("must be above 0"));
}

TEST(Profile, RefusesAnAxisThatIsNoExtentOfTheKernel) {
  const std::string kernel =
      "\nkernels:\n  - {kernel: rms_norm, axes: [m], source: project, grade: measured, "
      "points: [[1024, 0.5]]}";
  EXPECT_THAT(problems_of([&] { load_changed("\nkernels:", kernel); }),
              HasSubstr("`m` is no extent of `rms_norm`"));
}

TEST(Profile, OfAMeasuredMachineReadsBackEqual) {
  Profile profile = load("h800_sxm");
  profile.compute_issue = ComputeIssue::inlined;
  profile.scale_out.reset();
  profile.peaks.of[static_cast<std::size_t>(DType::bf16)].reset();
  profile.kernels.push_back({Kernel::grouped_matmul,
                             DType::fp32,
                             Seconds(1.7e-6),
                             {"rows_per_expert", "n", "k"},
                             {{{16, 512, 256, 0.3712345678901234}, {64, 512, 256, 1.25}}},
                             {20, 0.03125},
                             {"project", Grade::measured}});
  profile.scales = {{{"grouped_matmul", 1.0625}}};
  const std::string text = to_yaml(write(profile));
  EXPECT_EQ(read<Profile>(parse_yaml({"again.yaml", text})), profile);
}

TEST(Overlay, MultipliesTheScalesOfItsProfile) {
  const Profile profile = load("h800_sxm");
  const Overlay overlay = overlay_of(profile, {{{"matmul", 1.1}, {"rms_norm", 0.9}}}, "a test");
  const Profile once = with_overlay(profile, overlay);
  EXPECT_EQ(scale(once, Kernel::matmul), 1.1);
  EXPECT_EQ(scale(once, Kernel::rms_norm), 0.9);
  EXPECT_EQ(scale(once, Kernel::add), 1);
  const Profile twice = with_overlay(once, overlay_of(once, {{{"matmul", 2.0}}}, "a test"));
  EXPECT_DOUBLE_EQ(scale(twice, Kernel::matmul), 2.2);
}

TEST(Overlay, ReadsBackEqual) {
  const Overlay overlay = overlay_of(load("ascend_a3"), {{{"attention", 1.25}}}, "a test");
  EXPECT_EQ(read<Overlay>(parse_yaml({"o.yaml", to_yaml(write(overlay))})), overlay);
}

TEST(Overlay, RefusesAnotherProfile) {
  const Overlay overlay = overlay_of(load("ascend_a3"), {{{"matmul", 1.1}}}, "a test");
  EXPECT_THAT(problems_of([&] { with_overlay(load("h800_sxm"), overlay); }),
              HasSubstr("the overlay was fitted to profile `ascend_a3`"));
}

TEST(Overlay, RefusesAKernelThatDoesNotExist) {
  Overlay overlay = overlay_of(load("ascend_a3"), {{{"matmull", 1.1}}}, "a test");
  EXPECT_THAT(problems_of([&] {
                read<Overlay>(parse_yaml({"o.yaml", to_yaml(write(overlay))}));
              }),
              HasSubstr("unknown kernel `matmull`"));
}

}  // namespace
}  // namespace xt

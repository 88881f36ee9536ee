#include "costmodel/diagnostics/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace xt {
namespace {

constexpr std::array<std::string_view, 3> words = {"none", "swap_greedy_layer", "recompute"};

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("layer", "layer"), 0U);
  EXPECT_EQ(edit_distance("layr", "layer"), 1U);
  EXPECT_EQ(edit_distance("lyaer", "layer"), 1U);
  EXPECT_EQ(edit_distance("Layer", "layer"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(Nearest, FindsAMisspeltWord) {
  EXPECT_EQ(nearest("swap_greedy_layr", words), "swap_greedy_layer");
  EXPECT_EQ(nearest("nnoe", words), "none");
}

TEST(Nearest, OffersNothingThatIsFarAway) {
  EXPECT_EQ(nearest("x", words), std::nullopt);
  EXPECT_EQ(nearest("parallel", words), std::nullopt);
}

TEST(DidYouMean, ListsAllWhenNoneIsNear) {
  EXPECT_EQ(did_you_mean("parallel", words, "policies"),
            "policies: `none`, `swap_greedy_layer`, `recompute`");
  EXPECT_EQ(did_you_mean("recompte", words, "policies"), "did you mean `recompute`?");
}

}  // namespace
}  // namespace xt

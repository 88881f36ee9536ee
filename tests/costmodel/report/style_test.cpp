#include "costmodel/report/style.h"

#include <gtest/gtest.h>

#include "costmodel/report/exit_code.h"

namespace xt {
namespace {

TEST(Color, IsUsedOnlyOnACapableTerminalUnlessAskedFor) {
  const StreamFacts terminal = {true, false, "xterm"};
  EXPECT_TRUE(wants_color(ColorMode::automatic, terminal));
  EXPECT_FALSE(wants_color(ColorMode::automatic, {false, false, "xterm"}));
  EXPECT_FALSE(wants_color(ColorMode::automatic, {true, true, "xterm"}));
  EXPECT_FALSE(wants_color(ColorMode::automatic, {true, false, "dumb"}));
  EXPECT_FALSE(wants_color(ColorMode::never, terminal));
  EXPECT_TRUE(wants_color(ColorMode::always, {false, true, "dumb"}));
}

TEST(Style, PaintsOnlyWhenColored) {
  EXPECT_EQ(Style{false}.painted(Meaning::bad, "no"), "no");
  EXPECT_EQ(Style{true}.painted(Meaning::bad, "no"), "\x1b[31mno\x1b[0m");
}

TEST(Width, CountsCharactersAndNoEscapes) {
  EXPECT_EQ(width("größe"), 5U);
  EXPECT_EQ(width("\x1b[31mno\x1b[0m"), 2U);
}

TEST(ExitCode, SaysYesWithZero) {
  EXPECT_EQ(status(ExitCode::yes), 0);
  EXPECT_EQ(status(ExitCode::no), 1);
  EXPECT_EQ(status(ExitCode::bad_input), 2);
  EXPECT_EQ(status(ExitCode::failed), 3);
}

}  // namespace
}  // namespace xt

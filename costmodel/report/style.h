#pragma once

// Color by meaning, never the only carrier of one. Whether to use it is decided from facts about
// the terminal that a main passes in; nothing here reads the environment.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace xt {

enum class ColorMode : std::uint8_t { automatic, always, never };

/// The values of `--color`, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> color_mode_names = {"auto", "always", "never"};

/// The spellings of a color mode.
constexpr const auto& enum_names(ColorMode) { return color_mode_names; }

/// What a main knows about one output stream.
struct StreamFacts {
  bool is_terminal = false;
  /// The environment variable NO_COLOR is set to something.
  bool has_no_color = false;
  /// The environment variable TERM; "dumb" means no color.
  std::string term = {};
};

/// Whether to color a stream.
bool wants_color(ColorMode mode, const StreamFacts& facts);

enum class Meaning : std::uint8_t { good, warn, bad, path, literal, dim, strong };

/// Paints words when color is wanted, and leaves them alone otherwise.
struct Style {
  bool is_colored = false;

  [[nodiscard]] std::string painted(Meaning meaning, std::string_view text) const;
};

/// Columns `text` takes on a terminal; escape sequences take none.
///
/// Assumes: every character is one column wide
std::size_t width(std::string_view text);

}  // namespace xt

#pragma once

// A hardware number cannot exist without saying where it came from and how far to trust it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xt {

/// How a number came to be known, from most to least trusted.
enum class Grade : std::uint8_t {
  measured,  ///< somebody ran it on this machine type and printed the result
  vendor,    ///< stated by the maker
  derived,   ///< computed from measured or vendor numbers; the note says how
  estimate   ///< no source; the note says what it rests on
};

inline constexpr std::array<std::string_view, 4> grade_names = {"measured", "vendor", "derived",
                                                                "estimate"};

/// The spellings of a grade.
constexpr const auto& enum_names(Grade) { return grade_names; }

/// Where a number came from: a key of the profile's table of sources, a grade, a remark.
struct Provenance {
  std::string source;
  Grade grade = Grade::estimate;
  std::optional<std::string> note = {};

  bool operator==(const Provenance&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("source", source, "Key in the profile's table of sources");
    archive.field("grade", grade, "How the number came to be known");
    archive.field("note", note, "What a reader should know; required of derived and estimate");
  }
};

/// A value and where it came from.
template <typename T>
struct Sourced {
  T value{};
  Provenance from = {};

  bool operator==(const Sourced&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("value", value, "The number").at_least(T{});
    from.describe(archive);
  }
};

}  // namespace xt

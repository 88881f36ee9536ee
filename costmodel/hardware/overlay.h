#pragma once

// What calibration learnt about one machine: factors on the times of kernels, to be laid over the
// profile they were fitted to and over no other.

#include <array>
#include <string>
#include <string_view>

#include "costmodel/document/reader.h"
#include "costmodel/hardware/profile.h"

namespace xt {

inline constexpr std::array<std::string_view, 1> overlay_schemas = {"xt.overlay/1"};

/// Factors on the times of kernels, and the profile they belong to.
struct Overlay {
  std::string schema = std::string(overlay_schemas.back());
  std::string profile;                   ///< name of the profile it was fitted to
  std::string profile_digest;            ///< of that profile
  std::string source;                    ///< what it was fitted to: which plans, which steps, when
  Named<double> scales;                  ///< by kernel name; multiplied with those of the profile
  std::optional<double> residual_ratio;  ///< median |error| left on plans that were not used

  bool operator==(const Overlay&) const = default;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of this file").one_of(overlay_schemas);
    archive.field("profile", profile, "Name of the profile it was fitted to");
    archive.field("profile_digest", profile_digest, "Digest of that profile");
    archive.field("source", source, "What it was fitted to");
    archive.field("scales", scales, "Factor on the time of each kernel");
    archive.field("residual_ratio", residual_ratio, "Median |error| on plans not used");
  }
  void check(Reader& reader) const;
};

/// An overlay of `scales` for `profile`.
Overlay overlay_of(const Profile& profile, Named<double> scales, std::string source);

/// `profile` with the overlay's scales multiplied into its own.
///
/// Throws: InputError when the overlay was fitted to another profile or another state of it
Profile with_overlay(Profile profile, const Overlay& overlay);

}  // namespace xt

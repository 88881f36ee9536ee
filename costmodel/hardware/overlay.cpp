#include "costmodel/hardware/overlay.h"

#include <fmt/format.h>

#include <utility>

#include "costmodel/diagnostics/nearest.h"

namespace xt {

void Overlay::check(Reader& reader) const {
  for (const auto& [kernel, factor] : scales.entries) {
    if (!kernel_named(kernel))
      reader.problem("scales." + kernel, fmt::format("unknown kernel `{}`", kernel),
                     did_you_mean(kernel, kernel_names, "known kernels"));
    if (factor <= 0)
      reader.problem("scales." + kernel, fmt::format("scale is {}, must be above 0", factor));
  }
}

Overlay overlay_of(const Profile& profile, Named<double> scales, std::string source) {
  Overlay overlay;
  overlay.profile = profile.name;
  overlay.profile_digest = digest(profile);
  overlay.source = std::move(source);
  overlay.scales = std::move(scales);
  return overlay;
}

Profile with_overlay(Profile profile, const Overlay& overlay) {
  if (overlay.profile_digest != digest(profile))
    throw InputError(
        fmt::format("the overlay was fitted to profile `{}` with digest {}, not to "
                    "`{}` with digest {}",
                    overlay.profile, overlay.profile_digest, profile.name, digest(profile)),
        "calibrate again with this profile");
  for (const auto& [kernel, factor] : overlay.scales.entries) {
    bool known = false;
    for (auto& [own_kernel, own_factor] : profile.scales.entries) {
      if (own_kernel != kernel) continue;
      own_factor *= factor;
      known = true;
    }
    if (!known) profile.scales.entries.emplace_back(kernel, factor);
  }
  return profile;
}

}  // namespace xt

#pragma once

// From the machine of a published row to the profile that prices it.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/profile.h"
#include "planner/plan/plan.h"
#include "planner/validate/published_row.h"

namespace xt {

/// Reason of rows whose devices are no machine of the profile.
inline constexpr std::string_view machine_misfit = "devices that are no such machine";

/// The name of the profile of a row's machine.
std::string profile_name(const PublishedRow& row);

/// The profiles that rows run on, by name, each read once.
using Profiles = std::map<std::string, Profile>;
/// Throws: InputError where a profile is wrong; machines without one are left out
Profiles profiles_of(const std::vector<PublishedRow>& rows, const Catalogue& catalogue);

/// Why the devices of a row cannot be of `profile`: dies that leave one of a package over, or nodes
/// with more devices than its fast network joins; empty where they can.
std::string misfit(const PublishedRow& row, const Profile& profile);

/// `profile` with what a cluster's builder chooses as the row says it: the rate between nodes, and
/// nodes of fewer devices than usual.
///
/// Assumes: where the fast network joins one node, it joins a smaller one; where it joins many, it
///          still does
Profile machine_of_row(Profile profile, const PublishedRow& row);

}  // namespace xt

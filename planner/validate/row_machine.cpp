#include "planner/validate/row_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/validate/row_notes.h"

namespace xt {
namespace {

void take_network(Profile& profile, const PublishedRow& row) {
  if (!row.scale_out_gbit_s_per_device) return;
  const std::int64_t ranks = profile.ranks_per_device / dies_of_row(row, profile);
  const double per_rank = *row.scale_out_gbit_s_per_device * 1e9 / 8 / static_cast<double>(ranks);
  profile.sources.entries.emplace_back("published_row", row.source.title);
  profile.scale_out = {BytesPerSecond(per_rank),
                       {"published_row", Grade::vendor, "the network of this run"}};
}

// Devices of the profile in a node of the row.
std::int64_t devices_of_node(const PublishedRow& row, const Profile& profile) {
  return row.devices_per_node / dies_of_row(row, profile);
}

bool has_several_nodes(const PublishedRow& row) { return row.devices > row.devices_per_node; }

void take_nodes(Profile& profile, const PublishedRow& row) {
  const std::int64_t devices = devices_of_node(row, profile);
  if (!has_several_nodes(row) || devices >= profile.devices_per_node) return;
  const bool is_a_node = profile.scale_up.domain_ranks == profile.ranks_per_node();
  profile.devices_per_node = devices;
  if (is_a_node) profile.scale_up.domain_ranks = profile.ranks_per_node();
}

}  // namespace

std::string profile_name(const PublishedRow& row) {
  return row.machine == two_die_package || row.machine == one_die ? "ascend_a3" : row.machine;
}

Profiles profiles_of(const std::vector<PublishedRow>& rows, const Catalogue& catalogue) {
  const std::vector<std::string> known = catalogue.machine_names();
  Profiles profiles;
  for (const PublishedRow& row : rows) {
    const std::string name = profile_name(row);
    const bool is_known = std::ranges::find(known, name) != known.end();
    if (is_known && !profiles.contains(name)) profiles.emplace(name, catalogue.machine(name));
  }
  return profiles;
}

std::string misfit(const PublishedRow& row, const Profile& profile) {
  const std::int64_t dies = dies_of_row(row, profile);
  if (row.devices % dies != 0 || (has_several_nodes(row) && row.devices_per_node % dies != 0))
    return fmt::format("{} dies, {} in a node, fill no packages of {}", row.devices,
                       row.devices_per_node, dies);
  const std::int64_t joined = profile.scale_up.domain_ranks / profile.ranks_per_device;
  if (devices_of_node(row, profile) > joined)
    return fmt::format("a node of {} devices, where the fast network joins {}",
                       row.devices_per_node, joined * dies);
  return {};
}

Profile machine_of_row(Profile profile, const PublishedRow& row) {
  take_network(profile, row);
  take_nodes(profile, row);
  return profile;
}

}  // namespace xt

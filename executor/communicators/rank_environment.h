#pragma once

// Who this process is among the ranks of a run, read from the variables that launchers set:
// torchrun's (which xt-run's own launcher sets too), Slurm's and Open MPI's. Opens no connection.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace xt {

/// A process's place in a run, and where the ranks meet.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string store_host = "127.0.0.1";
  std::uint16_t store_port = 0;       ///< 0: one that is free, for a run of one rank
  bool launcher_hosts_store = false;  ///< otherwise rank 0 does
  std::string key_prefix = "xt/0/";   ///< differs between restarts that share a store
};

/// Looks a variable up, as std::getenv does.
using Variables = std::function<std::optional<std::string>(std::string_view)>;

/// The environment of this process.
std::optional<std::string> process_variable(std::string_view name);

/// The place in the run that the variables tell; torchrun's before Slurm's before Open MPI's; a
/// run of one rank if there are none.
///
/// Throws: InputError if a launcher's variables are incomplete or are not numbers
RankEnvironment rank_environment(const Variables& variable = process_variable);

/// The first host of a Slurm node list: `n03` of `n[03-07,11],m2`.
std::string first_host(std::string_view node_list);

/// Whether `host` is this machine's loopback address.
bool is_loopback(std::string_view host);

}  // namespace xt

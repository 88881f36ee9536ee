#pragma once

// `xt-run measure`: benchmarks this machine on the ranks that will be used and writes its profile.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/report/exit_code.h"

namespace xt {

/// What to measure and where to write it.
struct MeasureOptions {
  std::filesystem::path out;   ///< the profile
  std::string name = {};       ///< of the profile; that of the file if empty
  std::string device = "cpu";  ///< as device_choice() spells it
  int n_ranks = 1;
  std::optional<int> threads = {};  ///< per rank; an equal share of the cores if none
  bool is_quick = false;            ///< a minute
  bool has_bf16 = false;            ///< also what layers do in bf16
  bool may_overwrite = false;
  bool is_quiet = false;  ///< no progress
  std::vector<std::string> arguments =
      {};  ///< of this program, itself first: ranks are started by them
};

/// Measures, and says on standard output what was found. A process that no launcher started as a
/// rank starts the ranks and waits for them.
///
/// Assumes: install_allocator() was called first thing in main
/// Throws:  InputError for more threads than cores, ranks on several hosts, devices that are not
///          there, or a file that may not be overwritten; PeerLost
ExitCode measure_command(const MeasureOptions& options);

}  // namespace xt

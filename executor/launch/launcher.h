#pragma once

// Runs a program as several ranks on this host and answers for them: hosts the store they meet in,
// tells them when one is lost, and leaves none behind.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xt {

/// What to run as ranks, and how many.
struct LaunchOptions {
  int n_ranks = 1;
  int threads_per_rank = 1;
  std::vector<std::string> arguments;  ///< the program first
  /// Variables of all ranks; they win over those that say who a rank is.
  std::vector<std::pair<std::string, std::string>> variables = {};
  int shared_descriptor = -1;  ///< a file that ranks inherit; none if negative
  std::function<std::string(int rank)> last_seen = {};  ///< what a rank was at, in words
};

/// Runs the ranks to their end and returns the exit code of the whole: 0 if all succeeded, 1 if
/// one's answer was no, 2 if one refused its input, and 3 if one failed or was lost, which is then
/// named on stderr, and how the others ended. When one fails the others have some seconds to report
/// before they are ended.
/// Rank 0 has this process's stdout; the other ranks' goes to stderr.
///
/// Throws: std::exception if the program cannot be run or no port can be had
int launch(const LaunchOptions& options);

/// Whether this process is a rank that launch() started.
bool is_launched();

/// The file that the launcher of this process shares with its ranks, if it does.
std::optional<int> launcher_descriptor();

/// Makes this process, started by launch(), end when its launcher does.
void end_with_launcher();

/// The path of the running program.
std::string this_program();

}  // namespace xt

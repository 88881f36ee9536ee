#pragma once

// The processes of a run as their parent sees them: started, watched, ended. Knows nothing of
// ranks talking to each other.

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xt {

/// How a process ended.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  ///< 0 if it exited by itself

  bool operator==(const ProcessEnd&) const = default;
};

/// What to run, and with which variables beside the inherited ones (replacing those of that name).
struct Command {
  std::vector<std::string> arguments;  ///< the program first
  std::vector<std::pair<std::string, std::string>> variables;
  bool stdout_to_stderr = false;
};

/// Starts a process. Never forks this one, whose threads would be lost in the copy.
///
/// Assumes: signals are blocked by a BlockedSignals; the process starts without
/// Throws:  std::system_error if the program cannot be run
pid_t start_process(const Command& command);

/// How `process` ended, if it has.
std::optional<ProcessEnd> end_of(pid_t process);

/// While it lives, SIGCHLD, SIGINT and SIGTERM are not delivered to this thread or to threads that
/// it starts; they are waited for.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// The next signal, or none within `time`.
  std::optional<int> next(std::chrono::milliseconds time) const;

 private:
  sigset_t waited_for_;
  sigset_t before_;
};

}  // namespace xt

#include "executor/launch/processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

/// `NAME=value` of every variable of this process that `command` does not replace, and its own.
std::vector<std::string> environment(const Command& command) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [own, value] : command.variables) replaced = replaced || own == name;
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : command.variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

pid_t start_process(const Command& command) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> variables = environment(command);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (command.stdout_to_stderr)
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int error = posix_spawnp(&process, arguments.front().c_str(), &actions, &attributes,
                                 pointers(arguments).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw std::system_error(error, std::generic_category(), "cannot run " + arguments.front());
  return process;
}

std::optional<ProcessEnd> end_of(pid_t process) {
  int status = 0;
  const pid_t ended = waitpid(process, &status, WNOHANG);
  XT_CHECK(ended >= 0, process, errno);
  if (ended == 0) return std::nullopt;
  if (WIFSIGNALED(status)) return ProcessEnd{0, WTERMSIG(status)};
  return ProcessEnd{WEXITSTATUS(status), 0};
}

BlockedSignals::BlockedSignals() {
  sigemptyset(&waited_for_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&waited_for_, signal);
  pthread_sigmask(SIG_BLOCK, &waited_for_, &before_);
}

BlockedSignals::~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> BlockedSignals::next(std::chrono::milliseconds time) const {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(time.count() / 1000);
  limit.tv_nsec = static_cast<long>(time.count() % 1000 * 1'000'000);
  const int signal = sigtimedwait(&waited_for_, nullptr, &limit);
  if (signal < 0) return std::nullopt;
  return signal;
}

}  // namespace xt

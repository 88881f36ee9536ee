#include "executor/launch/launcher.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "costmodel/diagnostics/check.h"
#include "executor/communicators/rendezvous.h"
#include "executor/launch/processes.h"

namespace xt {
namespace {

using std::chrono::steady_clock;

/// How long the other ranks may take to report after one has failed.
constexpr std::chrono::seconds grace(8);
constexpr std::chrono::milliseconds poll_interval(200);

/// The variable by which torchrun names a run; ours holds the launcher's process, and behind it the
/// file that it shares.
constexpr const char* run_variable = "TORCHELASTIC_RUN_ID";

std::string run_name(pid_t launcher) { return fmt::format("xt-run-{}-", launcher); }

/// A failure that explains others comes before those it causes: a death by signal, then an exit of
/// its own accord, then the exit of a rank that lost a peer.
int weight(const ProcessEnd& end) {
  if (end.signal != 0) return 5;
  switch (end.exit_code) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return 3;
    case 3:
      return 2;
    default:
      return 4;
  }
}

bool is_failure(const ProcessEnd& end) { return weight(end) > 1; }

std::string clause(const ProcessEnd& end) {
  if (end.signal != 0)
    return fmt::format("was killed by signal {} ({})", end.signal, strsignal(end.signal));
  return fmt::format("{} with exit code {}", end.exit_code == 0 ? "ended" : "failed",
                     end.exit_code);
}

class Ranks {
 public:
  Ranks() = default;
  ~Ranks() { signal_running(SIGKILL); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(const LaunchOptions& options) {
    last_seen_ = options.last_seen;
    for (int rank = 0; rank < options.n_ranks; ++rank)
      ranks_.push_back({start_process(command(options, rank)), std::nullopt});
  }

  int wait() {
    while (collect()) {
      const std::optional<int> signal = signals_.next(poll_interval);
      if (signal == SIGINT || signal == SIGTERM) interrupt(*signal);
      if (deadline_ && steady_clock::now() > *deadline_) end_running();
    }
    return exit_code();
  }

 private:
  struct Rank {
    pid_t process;
    std::optional<ProcessEnd> end;
  };

  Command command(const LaunchOptions& options, int rank) const {
    Command result{options.arguments, options.variables, rank != 0};
    const std::string n_ranks = std::to_string(options.n_ranks);
    const std::string threads = std::to_string(options.threads_per_rank);
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"RANK", std::to_string(rank)},
             {"LOCAL_RANK", std::to_string(rank)},
             {"WORLD_SIZE", n_ranks},
             {"LOCAL_WORLD_SIZE", n_ranks},
             {"MASTER_ADDR", "127.0.0.1"},
             {"MASTER_PORT", std::to_string(store_.port())},
             {"OMP_NUM_THREADS", threads},
             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
             {"TORCHELASTIC_RESTART_COUNT", "0"},
             {run_variable, run_name(getpid()) + std::to_string(options.shared_descriptor)}})
      result.variables.emplace_back(name, value);
    return result;
  }

  /// Notes who has ended; whether anybody still runs.
  bool collect() {
    std::optional<int> worst;
    bool running = false;
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
      Rank& one = ranks_[static_cast<std::size_t>(rank)];
      if (one.end) continue;
      one.end = end_of(one.process);
      running = running || !one.end;
      if (!one.end || !is_failure(*one.end)) continue;
      if (!worst || weight(*one.end) > weight(*end(*worst))) worst = rank;
    }
    if (worst && !first_failed_) note_failure(*worst);
    return running;
  }

  const std::optional<ProcessEnd>& end(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].end;
  }

  void note_failure(int rank) {
    first_failed_ = rank;
    deadline_ = steady_clock::now() + grace;
    if (!interrupted_) store_.record_lost_rank(rank);
  }

  void interrupt(int signal) {
    interrupted_ = true;
    signal_running(signal);
    if (!deadline_) deadline_ = steady_clock::now() + grace;
  }

  void signal_running(int signal) {
    for (const Rank& rank : ranks_)
      if (!rank.end) kill(rank.process, signal);
  }

  void end_running() {
    has_ended_some_ = true;
    signal_running(SIGKILL);
  }

  /// Whether the ranks have said all that there is to say: they ended by themselves, or by us.
  bool is_said(const ProcessEnd& cause) const {
    const auto is_killed = [](const Rank& rank) { return rank.end->signal != 0; };
    return cause == ProcessEnd{3, 0} &&
           (has_ended_some_ || std::ranges::none_of(ranks_, is_killed));
  }

  /// Says how `rank` ended, what it was at if it could not say so itself, and how the others ended.
  void report(int rank, const ProcessEnd& cause) const {
    std::string text = fmt::format("error: rank {} {}", rank, clause(cause));
    if (cause.signal != 0 && last_seen_) text += " in " + last_seen_(rank);
    std::string others;
    for (int other = 0; other < std::ssize(ranks_); ++other)
      if (other != rank)
        others +=
            fmt::format("{}rank {} {}", others.empty() ? "" : ", ", other, clause(*end(other)));
    if (!others.empty()) text += "\nnote: " + others;
    if (cause.signal == SIGKILL)
      text += "\n\nhint: where nobody killed it, the system did for want of memory";
    std::fprintf(stderr, "%s\n", text.c_str());
  }

  int exit_code() const {
    if (interrupted_) return 3;
    if (first_failed_) {
      const ProcessEnd& cause = *end(*first_failed_);
      if (cause == ProcessEnd{2, 0}) return 2;
      if (is_said(cause)) return 3;
      report(*first_failed_, cause);
      return 3;
    }
    int code = 0;
    for (const Rank& rank : ranks_) code = std::max(code, rank.end->exit_code);
    return code;
  }

  BlockedSignals signals_;
  StoreServer store_;
  std::vector<Rank> ranks_;
  std::function<std::string(int rank)> last_seen_;
  std::optional<int> first_failed_;
  std::optional<steady_clock::time_point> deadline_;
  bool interrupted_ = false;
  bool has_ended_some_ = false;  ///< ranks that did not end in time
};

}  // namespace

int launch(const LaunchOptions& options) {
  XT_CHECK(options.n_ranks > 0 && options.threads_per_rank > 0, options.n_ranks,
           options.threads_per_rank);
  Ranks ranks;
  ranks.start(options);
  return ranks.wait();
}

bool is_launched() {
  return process_variable(run_variable).value_or("").starts_with(run_name(getppid()));
}

std::optional<int> launcher_descriptor() {
  if (!is_launched()) return std::nullopt;
  const std::string name = process_variable(run_variable).value_or("");
  const int descriptor = std::stoi(name.substr(run_name(getppid()).size()));
  return descriptor < 0 ? std::nullopt : std::optional(descriptor);
}

void end_with_launcher() {
  const pid_t launcher = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) std::raise(SIGKILL);  // it was gone before the request
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace xt

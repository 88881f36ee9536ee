#include "executor/communicators/rank_environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "costmodel/diagnostics/diagnostic.h"

namespace xt {
namespace {

/// Reads whole numbers from variables and collects what is wrong with them.
class Reader {
 public:
  Reader(const Variables& variable, std::string_view launcher)
      : variable_(variable), launcher_(launcher) {}

  int number(std::string_view name, std::optional<int> fallback = {}) {
    const std::optional<std::string> text = variable_(name);
    if (!text) {
      if (fallback) return *fallback;
      complain(fmt::format("{} is not set", name));
      return 0;
    }
    int value = 0;
    const char* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stop != end || value < 0)
      complain(fmt::format("{} is `{}`, which is not a count", name, *text));
    return value;
  }

  std::uint16_t port(std::string_view name, int fallback) {
    const int value = number(name, fallback);
    if (value < 1 || value > 65535)
      complain(fmt::format("{} is {}, which is no port", name, value));
    return static_cast<std::uint16_t>(value);
  }

  void complain(std::string message) {
    problems_.push_back(error_in("", fmt::format("{} variables: {}", launcher_, message)));
  }

  void finish(const RankEnvironment& place) {
    if (problems_.empty() && place.rank >= place.world_size)
      complain(fmt::format("rank {} of {} ranks", place.rank, place.world_size));
    if (!problems_.empty()) throw InputError(problems_);
  }

 private:
  const Variables& variable_;
  std::string_view launcher_;
  std::vector<Diagnostic> problems_;
};

RankEnvironment from_torchrun(const Variables& variable) {
  Reader reader(variable, "torchrun");
  RankEnvironment place;
  place.rank = reader.number("RANK");
  place.world_size = reader.number("WORLD_SIZE");
  place.local_rank = reader.number("LOCAL_RANK", place.rank);
  place.local_world_size = reader.number("LOCAL_WORLD_SIZE", place.world_size);
  place.store_host = variable("MASTER_ADDR").value_or("127.0.0.1");
  place.store_port = reader.port("MASTER_PORT", 29500);
  place.launcher_hosts_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.key_prefix = fmt::format("xt/{}/", reader.number("TORCHELASTIC_RESTART_COUNT", 0));
  reader.finish(place);
  return place;
}

RankEnvironment from_slurm(const Variables& variable) {
  Reader reader(variable, "Slurm");
  RankEnvironment place;
  place.rank = reader.number("SLURM_PROCID");
  place.world_size = reader.number("SLURM_STEP_NUM_TASKS");
  place.local_rank = reader.number("SLURM_LOCALID");
  // `4(x2),3` tasks per node: the first number serves all nodes that xt-run can use.
  place.local_world_size = std::atoi(variable("SLURM_STEP_TASKS_PER_NODE").value_or("1").c_str());
  place.store_host =
      variable("MASTER_ADDR")
          .value_or(first_host(variable("SLURM_STEP_NODELIST").value_or("127.0.0.1")));
  // Below 32768, from where Linux gives ports to whoever asks for any.
  constexpr int first_port = 20'000, n_ports = 12'000;
  place.store_port =
      reader.port("MASTER_PORT", first_port + reader.number("SLURM_JOB_ID") % n_ports);
  reader.finish(place);
  return place;
}

RankEnvironment from_open_mpi(const Variables& variable) {
  Reader reader(variable, "Open MPI");
  RankEnvironment place;
  place.rank = reader.number("OMPI_COMM_WORLD_RANK");
  place.world_size = reader.number("OMPI_COMM_WORLD_SIZE");
  place.local_rank = reader.number("OMPI_COMM_WORLD_LOCAL_RANK");
  place.local_world_size = reader.number("OMPI_COMM_WORLD_LOCAL_SIZE", place.world_size);
  const std::optional<std::string> host = variable("MASTER_ADDR");
  if (!host && place.local_world_size < place.world_size)
    reader.complain("MASTER_ADDR is not set, and the ranks are on several hosts");
  place.store_host = host.value_or("127.0.0.1");
  place.store_port = reader.port("MASTER_PORT", 29500);
  reader.finish(place);
  return place;
}

}  // namespace

std::optional<std::string> process_variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

RankEnvironment rank_environment(const Variables& variable) {
  if (variable("RANK") || variable("WORLD_SIZE")) return from_torchrun(variable);
  if (variable("SLURM_PROCID") && variable("SLURM_STEP_NUM_TASKS")) return from_slurm(variable);
  if (variable("OMPI_COMM_WORLD_RANK")) return from_open_mpi(variable);
  return {};
}

std::string first_host(std::string_view node_list) {
  const std::size_t bracket = node_list.find('[');
  const std::size_t comma = node_list.find(',');
  if (bracket == std::string_view::npos || comma < bracket)
    return std::string(node_list.substr(0, comma));
  const std::size_t end = node_list.find_first_of("-,]", bracket);
  return std::string(node_list.substr(0, bracket)) +
         std::string(node_list.substr(bracket + 1, end - bracket - 1));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace xt

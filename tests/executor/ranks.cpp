#include "tests/executor/ranks.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/launch/threads.h"
#include "executor/runtime/allocator.h"

namespace xt {
namespace {

constexpr const char* scenario_flag = "--scenario";

int run_scenario(const Scenario& scenario) {
  end_with_launcher();
  limit_threads(1);
  const RankEnvironment place = rank_environment();
  try {
    Rendezvous rendezvous(place);
    GlooNetwork network(rendezvous, std::chrono::seconds(60));
    scenario(rendezvous, network);
    return 0;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const PeerLost& error) {
    std::fprintf(stderr, "rank %d: %s\n", place.rank, error.what());
    return 3;
  } catch (const std::exception& error) {
    const std::string text = error.what();  // of LibTorch: with a stack below
    std::fprintf(stderr, "rank %d: %s\n", place.rank, text.substr(0, text.find('\n')).c_str());
    return 4;
  }
}

}  // namespace

void require(bool holds, const std::string& claim) {
  if (!holds) throw std::runtime_error("not so: " + claim);
}

int run_ranks(const std::string& scenario, int n_ranks,
              std::vector<std::pair<std::string, std::string>> variables) {
  LaunchOptions options;
  options.n_ranks = n_ranks;
  options.arguments = {this_program(), scenario_flag, scenario};
  options.variables = std::move(variables);
  return launch(options);
}

int ranks_main(int argc, char** argv, const std::map<std::string, Scenario>& scenarios) {
  install_allocator();
  if (argc == 3 && std::string(argv[1]) == scenario_flag)
    return run_scenario(scenarios.at(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace xt

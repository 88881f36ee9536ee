// How long a search of more than ten thousand candidates takes on two threads. Run by
// scripts/accept.sh; never by the tests, since it reads a clock.

#include <benchmark/benchmark.h>

#include "planner/cli/freed_pages.h"
#include "planner/search/search.h"

namespace xt {
namespace {

void search_256_devices(benchmark::State& state) {
  const std::filesystem::path root = XT_DATA_ROOT;
  Request request(root / "configs" / "runs" / "qwen3_235b_a22b_search.yaml", {});
  const Subject subject = subject_of(request, Catalogue{root});
  std::size_t n_candidates = 0, n_fitting = 0, n_simulated = 0;
  for (auto _ : state) {
    const Search found = search(request, subject, {.n_threads = 2});
    n_candidates = found.outcomes.size();
    n_fitting = n_simulated = 0;
    for (const Outcome& outcome : found.outcomes) {
      n_fitting += outcome.fits ? 1 : 0;
      n_simulated += outcome.account ? 1 : 0;
    }
  }
  state.counters["candidates"] = static_cast<double>(n_candidates);
  state.counters["fitting"] = static_cast<double>(n_fitting);
  state.counters["simulated"] = static_cast<double>(n_simulated);
}
BENCHMARK(search_256_devices)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  xt::keep_freed_pages();  // as xt-plan does
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

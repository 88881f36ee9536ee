// How long the planner takes to build, price and simulate one large schedule: what a search does
// thousands of times. Run by scripts/accept.sh; never by the tests, since it reads a clock.

#include <benchmark/benchmark.h>

#include "planner/cli/freed_pages.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"

namespace xt {
namespace {

Plan large_plan() {
  Request request(std::nullopt, {{"model", "qwen3_235b_a22b"},
                                 {"machine", "h800_sxm"},
                                 {"devices", "256"},
                                 {"engine", "xtuner_v1"},
                                 {"pack_length", "65536"},
                                 {"sample_length", "4096"},
                                 {"loss_chunk", "1024"},
                                 {"swap", "all"}});
  return resolve(request, Catalogue{XT_DATA_ROOT});
}

void build_price_and_simulate(benchmark::State& state) {
  const Plan plan = large_plan();
  for (auto _ : state) {
    const Schedule schedule = lower(graph_of(plan), plan.strategy);
    const Bindings bindings = assumed_bindings(schedule);
    const Prices prices = price(schedule, bindings, plan.profile);
    benchmark::DoNotOptimize(simulate(schedule, bindings, prices));
  }
}
BENCHMARK(build_price_and_simulate)->Unit(benchmark::kMillisecond);

void build(benchmark::State& state) {
  const Plan plan = large_plan();
  for (auto _ : state) benchmark::DoNotOptimize(lower(graph_of(plan), plan.strategy));
}
BENCHMARK(build)->Unit(benchmark::kMillisecond);

void simulate_only(benchmark::State& state) {
  const Plan plan = large_plan();
  const Schedule schedule = lower(graph_of(plan), plan.strategy);
  const Bindings bindings = assumed_bindings(schedule);
  const Prices prices = price(schedule, bindings, plan.profile);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, bindings, prices));
}
BENCHMARK(simulate_only)->Unit(benchmark::kMillisecond);

// DeepSeek-V3 over 16 stages and 128 micro-batches.
void estimate_pipeline(benchmark::State& state) {
  Request request(std::nullopt, {{"model", "deepseek_v3"},
                                 {"machine", "h800_sxm"},
                                 {"devices", "2048"},
                                 {"engine", "megatron"},
                                 {"expert_parallel", "64"},
                                 {"expert_parallel_across_nodes", "true"},
                                 {"pipeline_parallel", "16"},
                                 {"gradient_accumulation", "128"}});
  const Plan plan = resolve(request, Catalogue{XT_DATA_ROOT});
  for (auto _ : state) benchmark::DoNotOptimize(estimate(plan));
}
BENCHMARK(estimate_pipeline)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xt

int main(int argc, char** argv) {
  xt::keep_freed_pages();  // as xt-plan does
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

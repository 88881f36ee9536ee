#include <gtest/gtest.h>

#include "costmodel/ir/memory.h"
#include "costmodel/sim/bound.h"
#include "planner/plan/plan.h"
#include "planner/search/condensed.h"
#include "strategies.h"

namespace xt::test {
namespace {

// The case with many layers, of which some are recomputed and some of those swapped.
Case with_many_layers(Case drawn, std::mt19937& random) {
  const auto up_to = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n) + 1; };
  Strategy& s = drawn.strategy;
  const bool swapped = s.swap_layers > 0;
  drawn.model.num_hidden_layers = 8 + up_to(40);
  s.recompute_layers = up_to(drawn.model.num_hidden_layers) - 1;
  s.swap_layers = swapped ? std::min(up_to(drawn.model.num_hidden_layers), s.recompute_layers) : 0;
  return drawn;
}

StepMemory whole_memory(const Schedule& schedule, const Bindings& bindings) {
  const auto peaks = memory_peaks(schedule, bindings);
  return {peaks[static_cast<std::size_t>(Space::device)].peak,
          pooled_peak(schedule, bindings, Space::device),
          peaks[static_cast<std::size_t>(Space::host)].peak};
}

TEST(SearchLaws, AStepWithoutTheMiddleOfItsRunsHasMemoryAndBoundOfTheWhole) {
  const Profile profile = Catalogue{XT_DATA_ROOT}.machine("h100_sxm");
  std::mt19937 random(20261130);
  std::size_t n_shorter = 0;
  for_each_case(12, [&](const Case& few) {
    const Case drawn = with_many_layers(few, random);
    if (!is_condensable(drawn.strategy)) return;
    const OpGraph graph = drawn.graph();
    const Condensed step = condensed(graph, drawn.strategy);
    n_shorter += step.left_out.empty() ? 0 : 1;
    const Schedule whole = lower(graph, drawn.strategy);
    const Schedule part = lower(graph, step.layers, step.strategy);
    const Bindings of_whole = assumed_bindings(whole), of_part = assumed_bindings(part);
    const StepMemory expected = whole_memory(whole, of_whole);
    const StepMemory found = step_memory(part, of_part, step.left_out);
    EXPECT_EQ(found.device, expected.device) << drawn.text();
    EXPECT_EQ(found.pooled, expected.pooled) << drawn.text();
    EXPECT_EQ(found.host, expected.host) << drawn.text();
    EXPECT_EQ(lower_bound(part, price(part, of_part, profile), step.copies()),
              lower_bound(whole, price(whole, of_whole, profile)))
        << drawn.text();
    EXPECT_EQ(communicators(part).size(), communicators(whole).size()) << drawn.text();
  });
  EXPECT_GT(n_shorter, 400u);
}

}  // namespace
}  // namespace xt::test

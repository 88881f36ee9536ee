#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "costmodel/cost/demand.h"
#include "costmodel/ir/memory.h"
#include "costmodel/ir/verify.h"
#include "planner/estimate/estimate.h"
#include "strategies.h"

namespace xt::test {
namespace {

constexpr int n_cases = 60;

// Ops of compute phases by kernel, layer and phase: what a step computes, whatever the policies.
std::map<std::tuple<Phase, std::int16_t, Kernel>, int> compute_ops(const Schedule& schedule) {
  std::map<std::tuple<Phase, std::int16_t, Kernel>, int> counts;
  for (const Op& op : schedule.ops) {
    const Kernel kernel = schedule.work(op).kernel;
    const KernelClass of = kernel_class(kernel);
    const bool computes = of == KernelClass::matrix || of == KernelClass::grouped_matrix ||
                          of == KernelClass::attention;
    if (computes && op.origin.phase != Phase::recompute && op.origin.phase != Phase::loss)
      ++counts[{op.origin.phase, op.origin.layer, kernel}];
  }
  return counts;
}

TEST(ScheduleLaws, EveryLoweredScheduleKeepsTheRules) {
  for_each_case(n_cases, [](const Case& drawn) {
    const std::vector<std::string> problems = verify(drawn.schedule());
    EXPECT_TRUE(problems.empty()) << drawn.text() << "\n" << problems.front();
  });
}

TEST(ScheduleLaws, LoweringTwiceGivesTheSameSchedule) {
  for_each_case(10, [](const Case& drawn) {
    const Schedule first = drawn.schedule(), second = drawn.schedule();
    EXPECT_EQ(first, second) << drawn.text();
    EXPECT_EQ(digest(first), digest(second)) << drawn.text();
  });
}

TEST(ScheduleLaws, MemoryEndsWhereItBegan) {
  for_each_case(n_cases, [](const Case& drawn) {
    const Schedule schedule = drawn.schedule();
    const Bindings bindings = assumed_bindings(schedule);
    for (const Space space : {Space::device, Space::host}) {
      Bytes resident;
      for (const Buffer& buffer : schedule.buffers)
        if (buffer.kind == BufferKind::resident && buffer.space == space)
          resident += buffer.bytes(bindings);
      // The last op is the section's wait: nothing transient may be left while it runs.
      EXPECT_EQ(memory_curve(schedule, bindings, space).back(), resident) << drawn.text();
    }
  });
}

TEST(ScheduleLaws, PeakByCategoryAddsUpToThePeak) {
  for_each_case(20, [](const Case& drawn) {
    const Schedule schedule = drawn.schedule();
    const MemoryPeak peak = memory_peak(schedule, assumed_bindings(schedule), Space::device);
    Bytes sum;
    for (const Bytes bytes : peak.by_category) sum += bytes;
    EXPECT_EQ(sum, peak.peak) << drawn.text();
  });
}

TEST(ScheduleLaws, RecomputeSwapAndChunkChangeNoModelFlops) {
  for_each_case(20, [](const Case& drawn) {
    Case plain = drawn;
    plain.strategy.recompute_layers = plain.strategy.swap_layers = 0;
    plain.strategy.loss_chunk = plain.strategy.pack_length;
    const Schedule a = drawn.schedule(), b = plain.schedule();
    EXPECT_DOUBLE_EQ(model_flops(a, assumed_bindings(a)).value,
                     model_flops(b, assumed_bindings(b)).value)
        << drawn.text();
    EXPECT_EQ(compute_ops(a), compute_ops(b)) << drawn.text();
  });
}

TEST(ScheduleLaws, RanksThatShareAPackByTokensTogetherDoWhatOneDoesAlone) {
  for_each_case(20, [](const Case& drawn) {
    if (drawn.strategy.context_parallel == 1) return;
    Case alone = drawn;
    alone.strategy.context_parallel = 1;
    const Schedule a = drawn.schedule(), b = alone.schedule();
    EXPECT_NEAR(model_flops(a, assumed_bindings(a)).value *
                    static_cast<double>(drawn.strategy.context_parallel),
                model_flops(b, assumed_bindings(b)).value, 1.0)
        << drawn.text();
  });
}

TEST(ScheduleLaws, RanksThatShareProductsTogetherDoWhatOneDoesAlone) {
  for_each_case(20, [](const Case& drawn) {
    if (drawn.strategy.tensor_parallel == 1) return;
    Case alone = drawn;
    alone.strategy.tensor_parallel = 1;
    const Schedule a = drawn.schedule(), b = alone.schedule();
    EXPECT_NEAR(model_flops(a, assumed_bindings(a)).value *
                    static_cast<double>(drawn.strategy.tensor_parallel),
                model_flops(b, assumed_bindings(b)).value, 1.0)
        << drawn.text();
  });
}

// Bytes of weights, gradients and optimizer state that outlast a step, over what one rank has where
// nothing is split: each stage of ZeRO splits more.
// DeepSpeed's stage 3 keeps shards of gradients, which its stage 2 gives up after an update.
TEST(ScheduleLaws, AHigherStageOfZeroKeepsNoMore) {
  for_each_case(20, [](const Case& drawn) {
    const EngineRules& engine = *engine_named(drawn.strategy.engine);
    if (engine.least_zero == engine.most_zero || drawn.strategy.offloads_optimizer) return;
    const std::int64_t most = engine.keeps_gradient_shards ? 2 : engine.most_zero;
    Bytes earlier;
    for (std::int64_t zero = most; zero >= engine.least_zero; --zero) {
      Case of = drawn;
      of.strategy.zero = zero;
      of.strategy.compute_dtype = DType::bf16;
      const Schedule schedule = of.schedule();
      const Bytes kept = memory_curve(schedule, assumed_bindings(schedule), Space::device).back();
      EXPECT_GE(kept, earlier) << of.text();
      earlier = kept;
    }
  });
}

TEST(ScheduleLaws, AccumulationMultipliesFlops) {
  for_each_case(20, [](const Case& drawn) {
    Case once = drawn;
    once.strategy.gradient_accumulation = 1;
    once.strategy.expert_parallel_overlap = false;  // it takes two
    const Schedule a = drawn.schedule(), b = once.schedule();
    EXPECT_NEAR(model_flops(a, assumed_bindings(a)).value,
                model_flops(b, assumed_bindings(b)).value *
                    static_cast<double>(drawn.strategy.gradient_accumulation),
                1.0)
        << drawn.text();
  });
}

TEST(ScheduleLaws, WithoutRecomputeHardwareFlopsDifferOnlyByRouterAttentionAndOptimizer) {
  for_each_case(20, [](const Case& drawn) {
    Case plain = drawn;
    plain.strategy.recompute_layers = plain.strategy.swap_layers = 0;
    const Schedule schedule = plain.schedule();
    const Bindings bindings = assumed_bindings(schedule);
    Flops extra;
    for (const Section& section : schedule.sections)
      for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
        const Op& op = schedule.ops[i];
        const Work& work = schedule.work(op);
        const Flops both = hardware_flops(work, bindings);
        const bool is_beside =
            schedule.parts[op.origin.part] == "router" || op.origin.phase == Phase::optimizer;
        extra += (is_beside ? both : both - model_flops(work, bindings)) * double(section.repeat);
      }
    EXPECT_NEAR((hardware_flops(schedule, bindings) - model_flops(schedule, bindings)).value,
                extra.value, 1.0)
        << plain.text();
  });
}

TEST(ScheduleLaws, SwappedLayersWaitInHostMemory) {
  for_each_case(n_cases, [](const Case& drawn) {
    if (drawn.strategy.offloads_optimizer) return;
    const Schedule schedule = drawn.schedule();
    const Bytes peak = memory_peak(schedule, assumed_bindings(schedule), Space::host).peak;
    const bool is_wide = engine_named(drawn.strategy.engine)->widens_residuals;
    const DType residual = is_wide ? DType::fp32 : drawn.strategy.compute_dtype;
    const std::int64_t per_layer = drawn.strategy.rank_tokens() *
                                   drawn.strategy.intra_layer_micro_batches *
                                   drawn.model.hidden_size * width(residual);
    std::int64_t moments = 0;
    for (const Flat& flat : schedule.flats)
      if (drawn.strategy.swaps_optimizer && flat.exp_avg != no_buffer)
        moments += 2 * flat.elements / schedule.group(flat.group).size * width(DType::fp32);
    EXPECT_EQ(peak.value, drawn.strategy.swap_layers * per_layer + moments) << drawn.text();
  });
}

// 16 bits of a weight, its gradient, and three numbers in fp32: wherever they wait, they are as
// many.
TEST(ScheduleLaws, StateOnTheHostTakesAsManyBytesAsItDidOnTheDevice) {
  for_each_case(n_cases, [](const Case& drawn) {
    if (!drawn.strategy.offloads_optimizer) return;
    Case without = drawn;
    without.strategy.offloads_optimizer = without.strategy.offloads_parameters = false;
    const auto resident = [](const Case& of, Space space) {
      const Schedule schedule = of.schedule();
      std::int64_t bytes = 0;
      for (const Buffer& buffer : schedule.buffers)
        if (buffer.kind == BufferKind::resident && buffer.space == space &&
            (buffer.category == MemoryCategory::optimizer ||
             buffer.category == MemoryCategory::parameters))
          bytes += buffer.bytes(assumed_bindings(schedule)).value;
      return bytes;
    };
    EXPECT_EQ(resident(drawn, Space::host) + resident(drawn, Space::device),
              resident(without, Space::device))
        << drawn.text();
    EXPECT_EQ(resident(drawn, Space::device) == 0, drawn.strategy.offloads_parameters)
        << drawn.text();
  });
}

// Source: Hugging Face transformers, modeling_qwen3.py and modeling_deepseek_v3.py
std::int64_t attention_parameters(const Architecture& m) {
  const std::int64_t E = m.hidden_size, D = m.head_dim, H = m.num_attention_heads,
                     K = m.num_key_value_heads, q = m.q_lora_rank, c = m.kv_lora_rank;
  const std::int64_t norms = !m.has_qk_norm ? 0 : m.has_wide_qk_norm ? (H + K) * D : 2 * D;
  std::int64_t biases = m.has_sinks ? H : 0;
  if (m.has_qkv_bias) biases += (H + 2 * K) * D + (m.has_bias_everywhere ? E : 0);
  if (!m.has_mla()) return norms + biases + E * D * (2 * H + 2 * K);
  const std::int64_t queries = q > 0 ? E * q + q + q * H * D : E * H * D;
  const std::int64_t keys = E * (c + m.qk_rope_head_dim) + c;
  const std::int64_t expanded = c * H * (D - m.qk_rope_head_dim + m.v_head_dim);
  return queries + keys + expanded + H * m.v_head_dim * E;
}

TEST(FamilyLaws, ParametersOfTheGraphEqualTheClosedForm) {
  for_each_case(20, [](const Case& drawn) {
    const Architecture& m = drawn.model;
    const std::int64_t E = m.hidden_size, F = m.moe_intermediate_size;
    std::int64_t expected = m.vocab_size * E * (m.tie_word_embeddings ? 1 : 2) + E;
    if (m.position == Position::learned) expected += m.max_position_embeddings * E;
    if (m.has_norm_bias) expected += E;
    const std::int64_t norm = m.has_norm_bias ? 2 * E : E;
    expected += m.further_tokens * (3 * norm + 2 * E * E);
    for (std::int64_t layer = 0; layer < m.decoder_layers(); ++layer) {
      expected += 2 * E + attention_parameters(m);
      if (m.has_norm_bias) expected += 2 * E;
      const bool is_sparse = m.is_sparse(std::min(layer, m.num_hidden_layers - 1));
      if (!is_sparse && m.has_qkv_bias && m.has_bias_everywhere)
        expected += (m.has_gated_ffn ? 2 : 1) * m.intermediate_size + E;
      if (is_sparse && m.has_bias_everywhere) expected += m.num_experts * (1 + 2 * F + E);
      expected += is_sparse ? m.num_experts * E + (m.num_experts + m.n_shared_experts) * 3 * E * F
                            : (m.has_gated_ffn ? 3 : 2) * E * m.intermediate_size;
    }
    EXPECT_EQ(count_parameters(drawn.graph(), drawn.strategy.expert_parallel,
                               drawn.strategy.tensor_parallel),
              expected)
        << drawn.text();
  });
}

TEST(FamilyLaws, AWindowOnlyTakesAwayAndNothingOfSamplesThatFitIt) {
  for_each_case(20, [](const Case& drawn) {
    if (drawn.model.sliding_window == 0) return;
    Case whole = drawn;
    whole.model.sliding_window = 0;
    const Schedule a = drawn.schedule(), b = whole.schedule();
    const double with = model_flops(a, assumed_bindings(a)).value;
    const double without = model_flops(b, assumed_bindings(b)).value;
    const bool fits = drawn.strategy.sample_length <= drawn.model.sliding_window;
    if (fits) {
      EXPECT_DOUBLE_EQ(with, without) << drawn.text();
    } else {
      EXPECT_LE(with, without) << drawn.text();
    }
    EXPECT_EQ(memory_peak(a, assumed_bindings(a), Space::host).peak,
              memory_peak(b, assumed_bindings(b), Space::host).peak);
  });
}

TEST(FamilyLaws, BackwardProductsTakeTwiceTheFlopsOfForwardOnes) {
  for_each_case(20, [](const Case& drawn) {
    const Schedule schedule = drawn.schedule();
    const Bindings bindings = assumed_bindings(schedule);
    Flops forward, backward;
    for (const Op& op : schedule.ops) {
      const Flops flops = model_flops(schedule.work(op), bindings);
      if (op.origin.phase == Phase::forward) forward += flops;
      if (op.origin.phase == Phase::backward) backward += flops;
    }
    EXPECT_NEAR(backward / forward, 2.0, 1e-12) << drawn.text();
  });
}

TEST(FamilyLaws, EveryParameterIsPlacedOnceWithinItsFlat) {
  for_each_case(20, [](const Case& drawn) {
    if (!engine_named(drawn.strategy.engine)->is_executed) return;
    const Schedule schedule = drawn.schedule();
    std::vector<std::int64_t> ends(schedule.flats.size(), 0);
    std::int64_t placed = 0;
    for (const Placement& placement : schedule.placements) {
      std::int64_t& end = ends[static_cast<std::size_t>(placement.flat)];
      EXPECT_GE(placement.offset_elements, end) << drawn.text() << placement.name;
      const std::int64_t n = placement.shape[0] * placement.shape[1] * placement.shape[2];
      end = placement.offset_elements + n;
      const bool learns =
          schedule.flats[static_cast<std::size_t>(placement.flat)].exp_avg != no_buffer;
      if (!learns) continue;  // a router's bias counts as no parameter
      placed += n * (placement.expert >= 0 ? drawn.strategy.expert_parallel : 1);
    }
    for (std::size_t i = 0; i < ends.size(); ++i)
      EXPECT_LE(ends[i], schedule.flats[i].elements) << drawn.text();
    EXPECT_EQ(placed, count_parameters(drawn.graph(), drawn.strategy.expert_parallel))
        << drawn.text();
  });
}

}  // namespace
}  // namespace xt::test

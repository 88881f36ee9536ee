#include "planner/lower/pipeline.h"

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "planner/lower/balanced_stages.h"
#include "planner/lower/lowering.h"

namespace xt {
namespace {

// Micro-batches go through each chunk in groups of as many as there are stages.
ChunkRun run_at(std::int32_t k, bool is_backward, std::int32_t stages, std::int32_t chunks) {
  if (chunks == 1) return {0, k, is_backward};
  const std::int32_t group = stages * chunks;
  const std::int32_t chunk = k % group / stages;
  return {is_backward ? chunks - 1 - chunk : chunk, k / group * stages + k % stages, is_backward};
}

std::vector<ChunkRun> order_of(std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                               std::int32_t micro_batches, bool in_pairs) {
  const std::int32_t n = micro_batches * chunks, behind = stages - stage - 1;
  const std::int32_t warm_up =
      std::min(n, chunks == 1 ? behind : 2 * behind + (chunks - 1) * stages + (in_pairs ? 1 : 0));
  std::vector<ChunkRun> order;
  order.reserve(static_cast<std::size_t>(2 * n));
  for (std::int32_t k = 0; k < n + warm_up; ++k) {
    if (k < n) order.push_back(run_at(k, false, stages, chunks));
    if (k < warm_up) continue;
    if (k < n) order.back().with_next = in_pairs;
    order.push_back(run_at(k - warm_up, true, stages, chunks));
  }
  return order;
}

std::vector<ChunkRun> split_order_of(std::int32_t stage, std::int32_t stages, std::int32_t chunks,
                                     std::int32_t micro_batches) {
  const std::int32_t n = micro_batches * chunks, behind = stages - stage - 1;
  const std::int32_t warm_up = std::min(n, behind + (chunks - 1) * stages);
  std::vector<ChunkRun> order;
  order.reserve(static_cast<std::size_t>(3 * n));
  const auto weights_at = [&](std::int32_t k) {
    order.push_back(run_at(k, true, stages, chunks));
    order.back().of_weights = true;
  };
  for (std::int32_t k = 0; k < n + warm_up; ++k) {
    if (k < n) order.push_back(run_at(k, false, stages, chunks));
    if (k < warm_up) continue;
    order.push_back(run_at(k - warm_up, true, stages, chunks));
    if (k - warm_up >= stage) weights_at(k - warm_up - stage);
  }
  for (std::int32_t k = std::max(0, n - stage); k < n; ++k) weights_at(k);
  return order;
}

std::vector<std::vector<ChunkRun>> orders_of(const Strategy& strategy) {
  const auto stages = static_cast<std::int32_t>(strategy.pipeline_parallel);
  const auto chunks = static_cast<std::int32_t>(strategy.virtual_stages);
  const auto micro_batches = static_cast<std::int32_t>(strategy.gradient_accumulation);
  return strategy.pipeline_schedule == ChunkOrder::zero_bubble
             ? zero_bubble(stages, chunks, micro_batches)
             : one_forward_one_backward(stages, chunks, micro_batches,
                                        strategy.expert_parallel_overlap);
}

// Adds the pairs of `order` that are not there yet.
void add_pairs(std::span<const ChunkRun> order, std::vector<ChunkPair>& pairs) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!order[i].with_next) continue;
    const ChunkPair pair{order[i].chunk, order[i + 1].chunk};
    if (std::ranges::find(pairs, pair) == pairs.end()) pairs.push_back(pair);
  }
}

// What one stage is lowered from.
struct StageSource {
  std::vector<std::uint16_t> layers;
  StagePart part;

  bool operator==(const StageSource&) const = default;
};

class Cut {
 public:
  Cut(const OpGraph& graph, const Strategy& strategy, const EngineRules& rules)
      : graph_(graph),
        strategy_(strategy),
        stages_(strategy.pipeline_parallel),
        parts_(stages_ * strategy.virtual_stages),
        before_(cut(rules)) {}

  StageSource stage(std::int64_t i) const {
    StageSource source;
    for (std::int64_t part = i; part < parts_; part += stages_) append(source, part);
    source.part.has_embedding = i == 0;
    source.part.has_head = i + 1 == stages_;
    source.part.shares_embedding =
        graph_.ties_embedding && (source.part.has_embedding || source.part.has_head);
    return source;
  }

  // The graph of that stage; a weight that two stages share is a parameter of both.
  OpGraph graph(const StageSource& source) const {
    OpGraph graph = graph_;
    graph.layers = source.layers;
    graph.ties_embedding = false;
    if (!source.part.has_embedding) graph.embedding = {};
    if (!source.part.has_head) {
      graph.head = {};
    } else if (graph_.ties_embedding) {
      BlockWriter(graph, graph.head)
          .part_of_parameter({graph.vocabulary, graph.width, 1},
                             {{"lm_head.weight", {graph.vocabulary, graph.width, 1}, 2, -1, 0}});
    }
    return graph;
  }

 private:
  // Of `n` that are spread evenly over `of`, those before the `i`-th.
  static std::int64_t before(std::int64_t n, std::int64_t i, std::int64_t of) {
    return (n * i + of - 1) / of;
  }

  std::vector<std::int64_t> cut(const EngineRules& rules) const {
    const auto layers = static_cast<std::int64_t>(graph_.layers.size());
    if (!strategy_.pipeline_layers.empty()) return by_hand(strategy_.pipeline_layers, layers);
    return rules.balances_stages ? balanced_stages(graph_, stages_).value()
                                 : evenly(layers, parts_);
  }

  std::vector<std::int64_t> by_hand(const std::vector<std::int64_t>& counts,
                                    std::int64_t layers) const {
    XT_CHECK(static_cast<std::int64_t>(counts.size()) == parts_, counts.size(), parts_);
    std::vector<std::int64_t> all{0};
    for (const std::int64_t count : counts) all.push_back(all.back() + count);
    XT_CHECK(all.back() == layers, all.back(), layers);
    return all;
  }

  static std::vector<std::int64_t> evenly(std::int64_t layers, std::int64_t parts) {
    const std::int64_t ends = counts_ends(layers, parts) ? 1 : 0;
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i <= parts; ++i)
      all.push_back(
          std::clamp<std::int64_t>(before(layers + 2 * ends, i, parts) - ends, 0, layers));
    return all;
  }

  void append(StageSource& source, std::int64_t part) const {
    const auto n = static_cast<std::int64_t>(graph_.layers.size());
    const std::int64_t begin = before_[static_cast<std::size_t>(part)],
                       end = before_[static_cast<std::size_t>(part + 1)];
    const std::int64_t recomputed =
        before(strategy_.recompute_layers, end, n) - before(strategy_.recompute_layers, begin, n);
    const std::size_t first = source.layers.size();
    for (std::int64_t layer = begin; layer < end; ++layer) {
      source.layers.push_back(graph_.layers[static_cast<std::size_t>(layer)]);
      source.part.recomputes.push_back(layer - begin < recomputed);
    }
    source.part.chunks.push_back({first, source.layers.size()});
  }

  const OpGraph& graph_;
  const Strategy& strategy_;
  std::int64_t stages_;
  std::int64_t parts_;
  std::vector<std::int64_t> before_;  // layers before each part, and behind the last
};

}  // namespace

bool counts_ends(std::int64_t layers, std::int64_t chunks) {
  return layers % chunks != 0 && (layers + 2) % chunks == 0;
}

std::int64_t transfer_columns(const OpGraph& graph, const Strategy& strategy,
                              const EngineRules& rules) {
  const bool is_split = rules.splits_transfers && !strategy.tensor_sequence_parallel;
  const std::int64_t ranks = is_split ? strategy.tensor_parallel : 1;
  return (graph.width + ranks - 1) / ranks;
}

std::vector<std::vector<ChunkRun>> one_forward_one_backward(std::int32_t stages,
                                                            std::int32_t chunks,
                                                            std::int32_t micro_batches,
                                                            bool in_pairs) {
  XT_CHECK(chunks == 1 || micro_batches % stages == 0, stages, chunks, micro_batches);
  XT_CHECK(chunks > 1 || !in_pairs);
  std::vector<std::vector<ChunkRun>> orders;
  for (std::int32_t stage = 0; stage < stages; ++stage)
    orders.push_back(order_of(stage, stages, chunks, micro_batches, in_pairs));
  return orders;
}

std::vector<std::vector<ChunkRun>> zero_bubble(std::int32_t stages, std::int32_t chunks,
                                               std::int32_t micro_batches) {
  XT_CHECK(chunks > 1 && micro_batches % stages == 0, stages, chunks, micro_batches);
  std::vector<std::vector<ChunkRun>> orders;
  for (std::int32_t stage = 0; stage < stages; ++stage)
    orders.push_back(split_order_of(stage, stages, chunks, micro_batches));
  return orders;
}

PipelineSchedule lower_pipeline(const OpGraph& graph, const Strategy& strategy) {
  const EngineRules* rules = engine_named(strategy.engine);
  XT_CHECK(rules != nullptr && rules->has_pipelines, strategy.engine);
  XT_CHECK(strategy.zero != 2 && rules->sums_from_zero && strategy.swap_layers == 0);
  PipelineSchedule result;
  result.micro_batches = static_cast<std::int32_t>(strategy.gradient_accumulation);
  result.stage_ranks = static_cast<std::int32_t>(strategy.stage_ranks());
  result.transfer = {Kernel::send_receive,
                     graph.dtype,
                     Group::none,
                     {strategy.rank_tokens() * transfer_columns(graph, strategy, *rules)}};
  result.orders = orders_of(strategy);
  const Cut cut(graph, strategy, *rules);
  std::vector<StageSource> known;
  std::vector<std::vector<ChunkPair>> pairs;  // of all stages that are like a known one
  for (std::int64_t i = 0; i < strategy.pipeline_parallel; ++i) {
    const StageSource source = cut.stage(i);
    const auto found = static_cast<std::size_t>(std::ranges::find(known, source) - known.begin());
    result.stages.push_back(static_cast<std::uint16_t>(found));
    if (found == known.size()) {
      known.push_back(source);
      pairs.emplace_back();
    }
    add_pairs(result.orders[static_cast<std::size_t>(i)], pairs[found]);
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    known[i].part.pairs = pairs[i];
    const OpGraph of_stage = cut.graph(known[i]);
    result.distinct.push_back(
        Lowering(of_stage, of_stage.layers, strategy, *rules, &known[i].part).run_stage());
  }
  return result;
}

}  // namespace xt

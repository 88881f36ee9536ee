// What sets families apart, in the blocks that they are built of.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/io/files.h"
#include "costmodel/io/json_document.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"

namespace xt {
namespace {

OpGraph graph_of(const std::string& name) {
  const auto path = std::filesystem::path(XT_MODELS) / (name + ".json");
  return build_decoder(read<ModelConfig>(read_json(path)).architecture,
                       {.tokens = 64, .dtype = DType::bf16});
}

const GraphOp& op_of(const std::vector<GraphOp>& ops, Kernel kernel) {
  return *std::ranges::find_if(ops, [&](const GraphOp& op) { return op.work.kernel == kernel; });
}

// How far attention of each layer sees; 0 where that is the longest sample.
std::vector<std::int64_t> windows_of(const OpGraph& graph) {
  std::vector<std::int64_t> windows;
  for (const std::uint16_t layer : graph.layers) {
    const Block& block = graph.decoder[layer];
    const Extent reach = op_of(block.forward, Kernel::attention).work.extents[5];
    EXPECT_EQ(reach, op_of(block.backward, Kernel::attention_backward).work.extents[5]);
    windows.push_back(reach.is_symbol() ? 0 : reach.code);
  }
  return windows;
}

std::int64_t count(const std::vector<GraphOp>& ops, Kernel kernel) {
  return std::ranges::count_if(ops, [&](const GraphOp& op) { return op.work.kernel == kernel; });
}

// Source: Hugging Face transformers, configuration_gpt_oss.py, layer_types
TEST(Families, EverySecondLayerOfGptOssSees128Tokens) {
  const std::vector<std::int64_t> windows = windows_of(graph_of("gpt_oss_20b"));
  ASSERT_EQ(windows.size(), 24u);
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    EXPECT_EQ(windows[layer], layer % 2 == 0 ? 128 : 0) << layer;
}

// Source: Hugging Face transformers, configuration_olmo3.py, layer_types
TEST(Families, EveryFourthLayerOfOlmo3SeesAllTokens) {
  const std::vector<std::int64_t> windows = windows_of(graph_of("olmo3_7b"));
  ASSERT_EQ(windows.size(), 32u);
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    EXPECT_EQ(windows[layer], layer % 4 == 3 ? 0 : 4096) << layer;
}

// Source: Hugging Face transformers, modeling_mistral.py, whose layers all have the config's window
TEST(Families, AllLayersOfMistralHaveTheWindowThatItsFileStates) {
  const std::vector<std::int64_t> windows = windows_of(graph_of("mistral_7b"));
  EXPECT_EQ(windows, std::vector<std::int64_t>(32, 4096));
}

TEST(Families, OthersHaveNoWindow) {
  for (const std::int64_t window : windows_of(graph_of("qwen2_5_7b"))) EXPECT_EQ(window, 0);
}

// Two norms behind, one over all heads of query, one over those of key.
TEST(Families, NormsOfOlmo3StandBehind) {
  const Block block = graph_of("olmo3_7b").decoder.front();
  const auto of_kernel = [](const GraphOp& op) { return op.work.kernel == Kernel::rms_norm; };
  std::vector<std::int64_t> widths;
  for (const GraphOp& op : block.forward)
    if (of_kernel(op)) widths.push_back(op.work.extents[1].code);
  EXPECT_EQ(widths, (std::vector<std::int64_t>{4096, 4096, 4096, 4096}));
  EXPECT_EQ(block.forward.front().work.kernel, Kernel::matmul);
  const auto last = block.forward.end() - 1;
  EXPECT_EQ(last->work.kernel, Kernel::add);
  EXPECT_TRUE(of_kernel(*(last - 1)));
}

// Rows of a bias gradient are those of its product: no other kernel is added, and none before.
TEST(Families, ABiasAddsOnePassOverItsGradient) {
  const Block llama = graph_of("llama3_1_8b").decoder.front();
  const Block qwen = graph_of("qwen2_5_7b").decoder.front();
  const Block mixtral = graph_of("mixtral_8x7b").decoder.front();
  const Block gpt_oss = graph_of("gpt_oss_20b").decoder.front();
  EXPECT_EQ(qwen.forward.size(), llama.forward.size());
  EXPECT_EQ(qwen.backward.size(), llama.backward.size() + 3);
  EXPECT_EQ(gpt_oss.forward.size(), mixtral.forward.size());
  // query, key, value, output, router; two of experts; sinks
  EXPECT_EQ(count(gpt_oss.backward, Kernel::sum_rows), 5);
  EXPECT_EQ(count(gpt_oss.backward, Kernel::sum_expert_rows), 2);
  EXPECT_EQ(count(gpt_oss.backward, Kernel::sinks_backward), 1);
  EXPECT_EQ(count(gpt_oss.backward, Kernel::cast), count(mixtral.backward, Kernel::cast));
}

TEST(Families, AnglesOfGlmTurnHalfAHead) {
  const OpGraph graph = graph_of("glm_4_5");
  EXPECT_EQ(graph.rotary_size, 64);
  for (const Block& block : graph.decoder)
    EXPECT_EQ(op_of(block.forward, Kernel::rope).work.extents[2], Extent(64));
}

// 64 tokens choose among 128 experts; all that makes a map of their choice is one op more.
TEST(Families, RoutersThatRunOpByOpLaunchFifteenKernelsMore) {
  const auto path = std::filesystem::path(XT_MODELS) / "qwen3_30b_a3b.json";
  const auto routed = [&](bool op_by_op) {
    const OpGraph graph =
        build_decoder(read<ModelConfig>(read_json(path)).architecture,
                      {.tokens = 64, .dtype = DType::bf16, .routes_op_by_op = op_by_op});
    return graph.decoder[graph.layers.front()];
  };
  const Block fused = routed(false), apart = routed(true);
  EXPECT_EQ(count(fused.forward, Kernel::cast), 0);
  ASSERT_EQ(count(apart.forward, Kernel::cast), 1);
  EXPECT_EQ(apart.forward.size(), fused.forward.size() + 1);
  EXPECT_EQ(apart.backward.size(), fused.backward.size());
  const Work work = op_of(apart.forward, Kernel::cast).work;
  EXPECT_EQ(work.extents[0], Extent(64 * 128));  // logits
  EXPECT_EQ(work.extents[1], Extent(60));        // bytes of each
  EXPECT_EQ(work.extents[2], Extent(15));        // kernels
}

// Bytes that the forward pass of a routed layer leaves for its backward pass.
std::int64_t left_of_routed_layer(bool weighs_activations) {
  const auto path = std::filesystem::path(XT_MODELS) / "qwen3_30b_a3b.json";
  const OpGraph graph =
      build_decoder(read<ModelConfig>(read_json(path)).architecture,
                    {.tokens = 64, .dtype = DType::bf16, .weighs_activations = weighs_activations});
  const Block& block = graph.decoder[graph.layers.front()];
  std::set<ValueId> made, left;
  for (const GraphOp& op : block.forward) made.insert(op.outputs.begin(), op.outputs.end());
  for (const GraphOp& op : block.backward)
    for (const ValueId id : op.inputs)
      if (made.contains(id)) left.insert(id);
  std::int64_t bytes = 0;
  for (const ValueId id : left) {
    const GraphValue& value = block.values[static_cast<std::size_t>(id)];
    EXPECT_FALSE(value.shape[0].is_symbol());
    bytes += value.shape[0].code * value.shape[1].code * value.shape[2].code * width(value.dtype);
  }
  return bytes;
}

// Of 64 tokens each has a row of 2048 in eight experts.
TEST(Families, ExpertsWhoseActivationsAreWeighedLeaveNoOutputs) {
  EXPECT_EQ(left_of_routed_layer(false) - left_of_routed_layer(true), 64 * 8 * 2048 * 2);
}

// The file of `name` with `value` for `key`.
Architecture with_key(const std::string& name, const std::string& key, Node value) {
  Document document = read_json(std::filesystem::path(XT_MODELS) / (name + ".json"));
  const auto before = std::ranges::find(document.root.keys, key, &Key::text);
  if (before == document.root.keys.end())
    add(document.root, key, std::move(value));
  else
    document.root.items[static_cast<std::size_t>(before - document.root.keys.begin())] =
        std::move(value);
  return read<ModelConfig>(document).architecture;
}

// Source: config.json of moonshotai/Moonlight-16B-A3B
TEST(Families, QueriesPassThroughNoRankWhereAFileSaysNull) {
  EXPECT_EQ(with_key("deepseek_v3", "q_lora_rank", Node{}).q_lora_rank, 0);
  EXPECT_EQ(with_key("deepseek_v3", "q_lora_rank", literal_node("1536")).q_lora_rank, 1536);
}

// Source: config.json of mistralai/Mixtral-8x22B-v0.1
TEST(Families, ARouterWithoutNoiseIsOneWithoutTheKey) {
  EXPECT_NO_THROW(with_key("mixtral_8x22b", "router_jitter_noise", literal_node("0.0")));
  EXPECT_THROW(with_key("mixtral_8x22b", "router_jitter_noise", literal_node("0.1")), InputError);
}

}  // namespace
}  // namespace xt

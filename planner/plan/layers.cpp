#include "planner/plan/layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace xt {
namespace {

class LayerChoice {
 public:
  LayerChoice(Strategy& strategy, const Architecture& architecture, const EngineRules& rules,
              Request& request)
      : strategy_(strategy),
        architecture_(architecture),
        rules_(rules),
        request_(request),
        from_(request.fields()) {}

  LeftToPlanner run() {
    strategy_.reshards_layers = strategy_.zero < 3 || from_.reshard_after_forward.value_or(true);
    choose_recompute();
    choose_swap();
    choose_chunk();
    return left_;
  }

 private:
  void choose_recompute();
  void choose_swap();
  void choose_chunk();
  std::int64_t layers(const Choice& choice, std::string_view field, std::int64_t most);

  Strategy& strategy_;
  const Architecture& architecture_;
  const EngineRules& rules_;
  Request& request_;
  const RunFile& from_;
  LeftToPlanner left_;
};

std::int64_t LayerChoice::layers(const Choice& choice, std::string_view field, std::int64_t most) {
  switch (choice.kind) {
    case ChoiceKind::none:
    case ChoiceKind::automatic:
      return 0;
    case ChoiceKind::all:
      return most;
    case ChoiceKind::number:
      if (choice.number > most)
        request_.problem(field,
                         fmt::format("{} is {}, but {} layers can be", field, choice.number, most));
      return choice.number;
  }
  return 0;
}

void LayerChoice::choose_recompute() {
  const Choice recompute = from_.recompute.value_or(Choice{ChoiceKind::all, 0});
  if (recompute.kind == ChoiceKind::automatic)
    request_.problem("recompute", "recompute is `auto`, must be `none`, `all` or a number");
  strategy_.recompute_layers =
      layers(recompute, "recompute", recomputable_layers(architecture_, rules_));
}

void LayerChoice::choose_swap() {
  const Choice swap = from_.swap.value_or(Choice{ChoiceKind::none, 0});
  strategy_.swap_layers = layers(swap, "swap", strategy_.recompute_layers);
  left_.swap = swap.kind == ChoiceKind::automatic;
  const bool is_asked = strategy_.swap_layers > 0 || left_.swap || swap.kind == ChoiceKind::all;
  if (!is_asked) return;
  if (strategy_.pipeline_parallel > 1)
    request_.problem("swap", "not supported: swapping in a pipeline", "leave it out");
  if (strategy_.recompute_layers == 0)
    request_.problem("swap", "a layer that is not recomputed cannot be swapped",
                     "set recompute to `all` or to a number of layers");
  if (!architecture_.is_moe() && !rules_.swaps_dense)
    request_.problem("swap", fmt::format("{} does not swap dense models", rules_.name),
                     "engine xt_run does");
}

void LayerChoice::choose_chunk() {
  const std::int64_t tokens = strategy_.loss_tokens();
  const bool may_try =
      rules_.chunks_loss && strategy_.pipeline_parallel == 1 && !strategy_.returns_logits;
  const ChoiceKind usual = may_try ? ChoiceKind::automatic : ChoiceKind::none;
  const Choice chunk = from_.loss_chunk.value_or(Choice{usual, 0});
  const bool is_whole = chunk.kind == ChoiceKind::none ||
                        (chunk.kind == ChoiceKind::number && chunk.number >= tokens);
  if (!rules_.chunks_loss && !is_whole)
    request_.problem("loss_chunk",
                     fmt::format("{} computes the loss of all tokens at once", rules_.name),
                     "leave it out");
  left_.chunk = chunk.kind == ChoiceKind::automatic;
  if (strategy_.returns_logits && !is_whole)
    request_.problem("loss_chunk", "logits that are returned are those of all tokens",
                     "leave it out");
  else if (left_.chunk && rules_.chunks_loss && !may_try)
    request_.problem("loss_chunk", "not supported: the longest chunk that fits in a pipeline",
                     "give so many tokens, or leave it out");
  strategy_.loss_chunk = tokens;
  if (chunk.kind == ChoiceKind::number) strategy_.loss_chunk = std::min(chunk.number, tokens);
  constexpr std::int64_t most_chunks = 32'767;
  if (strategy_.loss_chunk > 0 && tokens / strategy_.loss_chunk >= most_chunks)
    request_.problem("loss_chunk", fmt::format("{} tokens in chunks of {} are more than {} chunks",
                                               tokens, strategy_.loss_chunk, most_chunks));
  if (chunk.kind == ChoiceKind::all || strategy_.loss_chunk < 1)
    request_.problem(
        "loss_chunk",
        fmt::format("loss_chunk is `{}`, must be `none`, `auto` or at least 1", chunk.text()));
}

}  // namespace

std::int64_t recomputable_layers(const Architecture& architecture, const EngineRules& rules) {
  const bool keeps_last = architecture.is_sparse(architecture.num_hidden_layers - 1) &&
                          !rules.recomputes_last_sparse_layer;
  return architecture.decoder_layers() - (keeps_last ? 1 : 0);
}

LeftToPlanner choose_layers(Strategy& strategy, const Architecture& architecture,
                            const EngineRules& rules, Request& request) {
  return LayerChoice(strategy, architecture, rules, request).run();
}

}  // namespace xt

#pragma once

// From an architecture to the op graph of one micro-step: embedding, decoder layers with grouped
// query attention and a dense or a routed SwiGLU ffn, final norm and lm_head.

#include <array>
#include <string_view>

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/architecture.h"

namespace xt {

/// How rows reach experts on other ranks: one copy per expert; one per rank that has any of a
/// token's experts, which spreads it and sums what its experts make of it, and between nodes one
/// per node; or all tokens to all
/// ranks, and what experts make of them back as a sum, where a token has equally many experts on
/// every rank.
enum class Dispatch : std::uint8_t { all_to_all, deep_ep, agrs };

inline constexpr std::array<std::string_view, 3> dispatch_names = {"all_to_all", "deep_ep", "agrs"};

/// The spellings of a dispatch.
constexpr const auto& enum_names(Dispatch) { return dispatch_names; }

/// How ranks that share a pack by tokens come by each other's keys and values: all at once before
/// attention, or around a ring, those of one rank while attention to another's runs.
enum class ContextExchange : std::uint8_t { all_gather, ring };

inline constexpr std::array<std::string_view, 2> context_exchange_names = {"all_gather", "ring"};

/// The spellings of an exchange of keys and values.
constexpr const auto& enum_names(ContextExchange) { return context_exchange_names; }

/// How products in fp8 come by the scales of their operands: one per block of an operand; one per
/// tensor, from its largest elements in steps before (delayed) or in this one (tensorwise); one per
/// 32 elements, in hardware (mxfp8).
enum class Fp8Recipe : std::uint8_t { blockwise, delayed, tensorwise, mxfp8 };

inline constexpr std::array<std::string_view, 4> fp8_recipe_names = {"blockwise", "delayed",
                                                                     "tensorwise", "mxfp8"};

/// The spellings of a recipe.
constexpr const auto& enum_names(Fp8Recipe) { return fp8_recipe_names; }

/// What the graph depends on beside the model.
struct GraphOptions {
  std::int64_t tokens = 0;           ///< of one pack, or of the part of it that products see
  DType dtype = DType::fp32;         ///< of parameters and activations while computing
  std::int64_t expert_parallel = 1;  ///< ranks that share the experts of a layer
  Dispatch dispatch = Dispatch::all_to_all;
  /// Ranks that share a pack: each has a part of the tokens, and in attention a part of the heads.
  std::int64_t sequence_parallel = 1;
  /// Exchanges of heads need a buffer as large as what they send, to put heads in order.
  bool exchanges_through_scratch = false;
  /// Ranks that share a pack by tokens, in attention too: each has 1/(2·cp) of every sample twice,
  /// as far from its start as from its end, so that all have the same work under a causal mask.
  std::int64_t context_parallel = 1;
  ContextExchange context_exchange = ContextExchange::all_gather;
  /// Ranks that share each product; where they share norms and residuals too, each has a part of
  /// the tokens there. See TensorRanks.
  std::int64_t tensor_parallel = 1;
  bool tensor_sequence_parallel = true;
  /// Exchanges of these ranks run behind products of the backward pass, for which inputs are
  /// gathered again; else gathered inputs are kept and nothing overlaps.
  bool overlaps_tensor_parallel = true;
  /// What is gathered of several samples, token by token, is copied sample by sample, and back
  /// before sums over ranks.
  bool copies_shared_tokens = false;
  /// Those exchanges run in pieces beside the products that need or make them: see
  /// exchange_in_pieces().
  bool exchanges_in_pieces = false;
  bool has_fp8_products = false;  ///< see use_fp8_products()
  Fp8Recipe fp8_recipe = Fp8Recipe::blockwise;
  bool has_transformer_engine = false;  ///< quantises as use_transformer_engine() says
  /// Issues products for weight gradients behind the exchange of the input gradient, so that they
  /// hide it. Otherwise both follow each other as autograd would order them.
  bool hides_exchange = true;
  /// Attention is one kernel; else its scores are tensors: see unfused_attention.cpp.
  bool fuses_attention = true;
  std::int64_t sample_length = 0;          ///< of every sample, where attention is not fused
  std::int64_t longest_fused_softmax = 0;  ///< tokens of a sample; of longer ones it is op by op
  bool repeats_key_heads = false;  ///< before attention, for kernels that know no groups of heads
  bool stacks_heads = false;       ///< see stack_heads()
  bool fuses_gate_up = true;       ///< of a dense SwiGLU: one product for both
  bool joins_projections = false;  ///< of query, key and value: see join_projections()
  bool joins_gradients = false;    ///< of what that makes
  bool sums_branches = false;      ///< see sum_branches()
  bool puts_heads_first = false;   ///< see put_heads_first()
  /// What the router gave a row weighs its activation, so that no backward pass reads what experts
  /// made of it; else it weighs that.
  bool weighs_activations = false;
  /// A router's choice becomes a map of all experts by kernels of their own, see router.cpp.
  bool routes_op_by_op = false;
  /// The bias by which a sigmoid router chooses is a buffer of the step, and rows are counted that
  /// it learns by, as who executes a step needs; else both are left out, which cost next to
  /// nothing.
  bool keeps_router_bias = false;
  bool has_balance_loss = false;  ///< of softmax routers, over all layers of a pack
  bool fuses_swiglu = true;       ///< else gate and up go through two kernels
  /// Rows of experts are permuted, activated, weighted and summed by few kernels; else op by op:
  /// see unfused_experts.cpp.
  bool fuses_experts = true;
  /// Norms, rotary angles and activations are one kernel each; else op by op: see
  /// use_eager_kernels().
  bool is_compiled = true;
  /// Rotary angles are one kernel where they are scaled too; else see use_unfused_scaled_rotary().
  bool fuses_scaled_rotary = true;
  bool widens_norms = false;      ///< see widen_norms()
  bool widens_residuals = false;  ///< see widen_residuals()

  /// Tokens whose norms and residuals a rank has.
  std::int64_t residual_tokens() const {
    return tokens / (tensor_sequence_parallel ? tensor_parallel : 1);
  }
};

/// The op graph of one micro-step on one rank.
///
/// Shapes:  x [T,E]; q [T,H,D]; k, v [T,K,D]; routed rows [R,E]
/// Assumes: expert_parallel divides num_experts, and with agrs num_experts_per_tok; routing drops
/// no
///          token; sequence_parallel divides
///          the query heads, and divides the key heads or is a multiple of them; context_parallel
///          is 1 with latent attention, exchanges keys in no ring with windows, and twice it
///          divides every sample; tensor_parallel is 1 with latent attention and norms over all
///          heads, and divides heads, widths of ffns and, where tokens are shared, tokens
/// Source:  Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv 2309.14509, for sequence_parallel;
///           Liu et al. 2023, "Ring Attention", arXiv 2310.01889, for context_parallel;
///           Qwen3 technical report 2025, §2; Hugging Face transformers, models qwen3 and qwen3_moe
OpGraph build_decoder(const Architecture& architecture, const GraphOptions& options);

}  // namespace xt

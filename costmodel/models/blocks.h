#pragma once

// The decoder layer: attention and ffn, each written once, forward beside backward.

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "costmodel/ir/op_graph.h"
#include "costmodel/models/architecture.h"
#include "costmodel/models/around_experts.h"
#include "costmodel/models/decoder.h"
#include "costmodel/models/tensor_ranks.h"

namespace xt {

struct LayerValues;

/// A decoder layer with a routed (`is_sparse`) or a dense ffn; attention sees no farther than a
/// window where `model` has one.
///
/// Shapes:  legend in ir/kernel.h
/// Assumes: norms stand before a routed ffn
/// Source:  Hugging Face transformers, modeling_qwen3.py and modeling_qwen3_moe.py
Block decoder_block(OpGraph& graph, const Architecture& model, const GraphOptions& options,
                    bool is_sparse);

/// Writes a decoder layer from `values.x` and `values.dy`, which are made, to `values.y`, which is
/// too.
void write_layer(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                 LayerValues& values, bool is_sparse);

/// The norm of `model`.
NormKernels norm_of(const Architecture& model);

/// A bias of `n` numbers, of which tensor parallel ranks have a part each where it `is_split`; the
/// forward pass adds it where its product is written.
GraphParameter bias_parameter(BlockWriter& write, std::string name, std::int64_t n, bool is_split);
/// y = x · weightᵀ, [m,n] over k, and the bias where there is one.
void write_product(BlockWriter& write, std::string_view part,
                   const std::array<std::int64_t, 3>& shape, ValueId x, ValueId weight,
                   const std::optional<GraphParameter>& bias, ValueId y);
/// Sums `dy`, of `n` a row, over its rows.
void write_bias_backward(BlockWriter& write, std::string_view part, Extent rows, std::int64_t n,
                         ValueId dy, ValueId gradient);

/// The norm's weight, and its bias where `model` has one, as one parameter.
const GraphParameter& norm_parameter(BlockWriter& write, const Architecture& model,
                                     const std::string& name);

/// The tensor that a residual branch ends in, before it is added to what it branched off: `sum`
/// itself, or one of its own where the engine runs op by op.
ValueId residual_branch(BlockWriter& write, const GraphOptions& options, std::int64_t tokens,
                        std::int64_t width, ValueId sum);
/// Adds `branch` to `x`, which leaves `sum`.
void write_residual(BlockWriter& write, std::int64_t elements, ValueId x, ValueId branch,
                    ValueId sum);

/// How a branch of `width` per token is added to what it branched off; where `model` trains with
/// dropout, one kernel drops and adds.
///
/// Source:  Megatron-LM, megatron/model/transformer.py, bias_dropout_add
class ResidualSum {
 public:
  ResidualSum(BlockWriter& write, const Architecture& model, const GraphOptions& options);
  /// Where a branch is written that ends up in `sum`.
  ValueId branch(ValueId sum);
  void forward(ValueId x, ValueId branch, ValueId sum);
  /// The gradient of the branch out of that of the sum.
  ValueId backward(ValueId d_sum);

 private:
  BlockWriter& write_;
  const GraphOptions& options_;
  std::int64_t tokens_, width_;
  bool drops_;
  ValueId mask_{};
};

/// What the halves of a layer hand to each other.
struct LayerValues {
  ValueId x;         ///< layer input [T,E]
  ValueId attended;  ///< x plus attention [T,E]
  ValueId normed;    ///< input of the ffn [T,E]
  ValueId y;         ///< layer output [T,E]
  ValueId dy;        ///< its gradient
  ValueId dnormed;   ///< gradient of the ffn's input
};

/// The norm behind a branch, before it is added, in models that have theirs there; else nothing.
///
/// Source:  OLMo 2 technical report 2025, arXiv 2501.00656, section 3.2
class NormBehind {
 public:
  NormBehind(BlockWriter& write, const Architecture& model, const GraphOptions& options,
             std::string name);
  /// Where a branch is written that ends up in `branch`.
  ValueId input(ValueId branch);
  void forward(std::string_view part, ValueId branch);
  /// The gradient of what input() gave.
  ValueId backward(std::string_view part, ValueId d_branch);

 private:
  BlockWriter& write_;
  std::int64_t tokens_, width_;
  std::optional<ValueId> weight_;
  ValueId gradient_{}, x_{}, rstd_{};
};

/// Writes forward and backward of the attention half, residual and norms included; attention of a
/// pack that several ranks share is in shared_attention.cpp.
class AttentionHalf {
 public:
  AttentionHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
                LayerValues& values);
  void forward();
  void backward();

 private:
  struct Projection {
    ValueId weight, gradient, raw, normed, rstd, norm, norm_gradient, d_normed, d_raw;
    std::int64_t heads, norm_size;
    bool has_norm;
    std::optional<GraphParameter> bias;
  };
  Projection projection(std::string_view letter, std::int64_t heads, bool has_norm);
  std::int64_t norm_rows(const Projection& p) const { return T_ * p.heads * D_ / p.norm_size; }
  void project(const Projection& p, std::string_view part);
  void input_backward(const Projection& p, std::string_view part, ValueId dh, bool is_first);
  void weight_backward(const Projection& p, std::string_view part, ValueId h);
  void project_backward();
  void norm_input();
  void norm_output();
  ValueId output_backward();
  Extent reach() const;
  ValueId normalised(const Projection& p) const { return p.has_norm ? p.normed : p.raw; }
  ValueId gradient(const Projection& p) const { return p.has_norm ? p.d_normed : p.d_raw; }

  // What attention sees: of all tokens of the pack that ranks share by heads, this rank's heads.
  struct Operands {
    ValueId q, k, v;
  };
  Operands gathered();
  ValueId repeated(ValueId x);
  void exchange(Pass pass, std::int64_t heads, ValueId from, ValueId to);
  ValueId gathered_heads(ValueId x, std::int64_t heads);
  void scatter_heads(ValueId from, ValueId to, std::int64_t heads);
  Operands with_all_keys(Pass pass);
  Operands gradients_of(std::int64_t keys);
  void attention(const Operands& seen, ValueId o, ValueId lse, std::int64_t keys);
  void attention_backward(ValueId d_o, const Operands& seen, const Operands& d, std::int64_t keys);
  void attend();
  void attend_backward(ValueId d_o);
  void attend_to_all_keys_backward(ValueId d_o, const Operands& d);
  void batched(Pass pass, const std::array<std::int64_t, 3>& shape, ValueId x, ValueId y,
               ValueId z);
  std::int64_t batch() const;
  ValueId scores();
  bool has_fused_softmax() const;
  void scores_pass(Pass pass, std::int64_t bytes, std::initializer_list<ValueId> inputs,
                   ValueId to);
  void softmax(ValueId products);
  void softmax_backward(ValueId d_weights);
  void attend_unfused(const Operands& seen, ValueId o);
  void attend_unfused_backward(ValueId d_o, const Operands& seen, const Operands& d);
  ValueId packed_pair(Pass pass);
  ValueId passed_on(Pass pass, ValueId pair, DType dtype);
  void attend_around_ring();
  void attend_around_ring_backward(ValueId d_o, const Operands& d);
  std::int64_t all_tokens() const { return T_ * sp_; }
  std::int64_t key_tokens() const { return all_tokens() * cp_; }
  std::int64_t pair_elements() const { return 2 * all_tokens() * key_heads() * D_; }
  std::int64_t query_heads() const { return H_ / sp_; }
  std::int64_t key_heads() const {
    return repeats_keys_ ? H_ : std::max<std::int64_t>(1, K_ / sp_);
  }

  BlockWriter& write_;
  TensorRanks ranks_;
  std::int64_t T_, R_, E_, H_, K_, D_, sp_, cp_;  ///< T_: tokens of products; R_: of residuals
  ContextExchange exchange_;
  DType dtype_;
  std::int64_t width_;
  bool has_rope_, repeats_keys_;
  const Architecture& model_;
  const GraphOptions& options_;
  NormKernels norm_;
  NormBehind norm_behind_;
  ResidualSum residual_;
  LayerValues& v_;
  Operands seen_{};
  // Of attention that is not fused: its weights, in fp32 where the softmax is op by op, what
  // dropout leaves of them, and the mask that it drew.
  ValueId weights_{}, wide_weights_{}, dropped_{}, mask_{};
  ValueId seen_o_{};
  ValueId table_{}, boundaries_{}, input_norm_{}, input_norm_gradient_{}, input_rstd_{}, h_{},
      seen_h_{}, o_{}, lse_{}, wo_{}, wo_gradient_{}, post_norm_{}, post_norm_gradient_{},
      post_rstd_{};
  std::optional<GraphParameter> wo_bias_, sinks_;
  Projection q_{}, k_{}, value_{};
};

/// Writes forward and backward of multi-head latent attention: queries through a low rank where the
/// model has one, keys and values out of a latent that all heads share, expanded to all heads
/// before attention.
///
/// Assumes: values are padded to the size of queries, as flash attention with one head size needs
class MlaHalf {
 public:
  MlaHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
          LayerValues& values);
  void forward();
  void backward();

 private:
  struct Linear {
    ValueId weight, gradient;
    std::int64_t rows, columns;
    std::string part;
    ValueId x{};
  };
  struct Norm {
    ValueId weight, gradient;
    std::int64_t size;
    std::string part;
    ValueId x{}, rstd{};
  };
  Linear linear(std::string name, std::int64_t rows, std::int64_t columns);
  Norm norm(std::string name, std::int64_t size);
  ValueId tensor(std::int64_t columns);
  ValueId apply(Linear& of, ValueId x);
  ValueId apply(Norm& of, ValueId x);
  ValueId undo(const Linear& of, ValueId dy, std::optional<ValueId> dx);
  void undo(const Norm& of, ValueId dy, ValueId dx);
  void backward_of_queries(ValueId d_q);
  ValueId backward_of_keys(ValueId d_k, ValueId d_v);

  BlockWriter& write_;
  std::int64_t T_, E_, H_, D_, rope_, value_, latent_, adjacent_;
  bool has_query_rank_;
  LayerValues& v_;
  ValueId table_{}, boundaries_{}, q_{}, k_{}, padded_{}, attended_{}, lse_{};
  Norm input_norm_{}, q_norm_{}, kv_norm_{}, post_norm_{};
  Linear q_a_{}, q_b_{}, kv_a_{}, kv_b_{}, o_{};
};

/// Writes forward and backward of a dense ffn: SwiGLU, or GELU, whose cost
/// squared ReLU has too, between two products. The two first
/// products of SwiGLU are one where the engine fuses them; else its activation is one kernel if
/// compiled and two if not.
///
/// Source:  Shazeer 2020, "GLU Variants Improve Transformer", eq. 5
class DenseHalf {
 public:
  DenseHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
            LayerValues& values);
  void forward();
  void backward();

 private:
  struct Linear {
    GraphParameter weight;
    std::int64_t rows, columns;
    std::string part;
    std::optional<GraphParameter> bias{};
    ValueId y{}, dy{};
  };
  Linear linear(std::string name, std::int64_t rows, std::int64_t columns,
                std::vector<Piece> pieces = {});
  void bias_backward(const Linear& of, ValueId dy);
  bool is_split() const { return first_.size() > 1; }
  void activate();
  void activate_backward(ValueId d_act);
  void halves_backward(ValueId d_act);
  void first_backward();

  BlockWriter& write_;
  TensorRanks ranks_;
  std::int64_t T_, R_, E_, F_;
  const GraphOptions& options_;
  bool is_gated_, has_biases_;
  NormBehind norm_behind_;
  ResidualSum residual_;
  LayerValues& v_;
  std::vector<Linear> first_;  ///< gate and up, or both as one, or the only one
  Linear down_{};
  ValueId seen_{}, silu_{}, act_{};
};

/// Writes forward and backward of a routed SwiGLU ffn, with the exchange of rows when experts are
/// spread over ranks.
///
/// Gathering all tokens instead of exchanging rows is in gathered_tokens.cpp.
///
/// Experts that every token goes to are one dense ffn beside; they run while rows come back.
///
/// Assumes: dropless routing; rows_received is what the data decides; weights of rows that are sent
///          beside them cost nothing; scores by sigmoid or softmax,
///          with or without groups, cost the same
/// Source:  Qwen3 technical report 2025, §2; facts of the exchange: GShard 2020, §3.2
class RoutedHalf {
 public:
  RoutedHalf(BlockWriter& write, const Architecture& model, const GraphOptions& options,
             LayerValues& values);
  void forward();
  void backward();

 private:
  void dispatch();
  void combine();
  void experts_backward();
  void router_backward();
  void shared_forward();
  void shared_backward();
  void shared_input_backward(ValueId d_gate_up);
  void weight_gradients();
  void add_biases(std::int64_t local);
  void map_choice();
  void choose();
  void product(std::string_view part, std::int64_t n, std::int64_t k, ValueId x, ValueId weight,
               const std::optional<GraphParameter>& bias, ValueId y);
  void product_bias_backward(std::string_view part, std::int64_t n, ValueId dy,
                             const GraphParameter& bias);
  Extent rows() const;
  void exchange(Pass pass, std::string_view part, Extent sent, Extent received,
                std::initializer_list<ValueId> inputs, ValueId output);
  bool is_unfused() const { return !options_.fuses_experts && ep_ == 1; }
  ValueId row_pass(Pass pass, std::string_view part, std::int64_t tensors, ValueId from,
                   std::int64_t row_width);
  ValueId gathered_by_expert(ValueId by_token);
  ValueId gathered_by_expert_backward(ValueId d_rows);
  void activate_unfused();
  void activation_unfused_backward(ValueId d_act);
  ValueId returned_to_tokens(ValueId out);
  void combine_unfused_backward();
  bool pads_rows() const;
  bool adds_bias_apart() const { return down_bias_ && options_.has_transformer_engine; }
  ExpertBias down_bias() const { return {write_, rows(), E_, X_ / ep_, options_.dtype}; }
  bool clamps_apart() const {
    return is_clamped_ && options_.has_transformer_engine && options_.weighs_activations;
  }
  ExpertClamp clamp() const { return {write_, rows(), F_, options_.dtype}; }
  ValueId copied_rows(Pass pass, std::string_view part, ValueId rows);
  void combine_copies();
  void finish_combine();
  bool sends_copies() const { return ep_ > 1 && options_.dispatch == Dispatch::deep_ep; }
  bool gathers_tokens() const { return ep_ > 1 && options_.dispatch == Dispatch::agrs; }
  std::int64_t gathered_tokens() const { return T_ * ep_; }
  std::int64_t experts_here() const { return top_k_ / ep_; }
  void dispatch_gathered();
  void combine_gathered();
  void combine_gathered_backward();
  ValueId dispatch_gathered_backward(ValueId d_rows);
  std::int64_t copies() const;
  bool exchanges_weights() const;
  Extent sample_tokens() const;
  void count_rows(Pass pass, ValueId load);
  void combine_backward();
  ValueId unpermute_backward();
  ValueId dispatch_backward(ValueId d_rows);

  BlockWriter& write_;
  TensorRanks ranks_;
  const GraphOptions& options_;
  std::int64_t T_, E_, F_, X_, top_k_, ep_, transposed_, apart_;
  bool has_sigmoid_, is_clamped_;
  std::int64_t sparse_layers_;
  std::int64_t shared_, shared_tokens_;  ///< width of the shared experts, and what they see
  LayerValues& v_;
  ValueId router_{}, router_gradient_{}, w13_{}, w13_gradient_{}, w2_{}, w2_gradient_{}, logits_{},
      shared_input_{}, shared_gate_up_weight_{}, shared_gate_up_gradient_{}, shared_down_weight_{},
      shared_down_gradient_{}, shared_gate_up_{}, shared_act_{}, shared_out_{}, weights_{},
      indices_{}, order_{}, counts_{}, received_counts_{}, received_weights_{}, expert_input_{},
      gate_up_{}, clamped_{}, silu_{}, act_{}, returned_{}, d_weights_{}, d_received_weights_{},
      d_out_{}, d_gate_up_{};
  std::optional<GraphParameter> router_bias_, gate_up_bias_, down_bias_;
  std::optional<ValueId> choice_bias_, load_, pack_load_, balance_loss_;
};

}  // namespace xt

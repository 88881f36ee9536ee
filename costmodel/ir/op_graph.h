#pragma once

// What a model computes, forward and backward, before anybody decides where and when: blocks of ops
// on values. Equal layers share one block. Knows no strategy, no rank and no machine.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/ir/schedule.h"

namespace xt {

enum class ValueId : std::uint16_t {};

/// What a value of a block stands for.
enum class ValueRole : std::uint8_t {
  activation,
  input,            ///< the block's input
  input_gradient,   ///< the gradient that the backward pass hands down
  output,           ///< the block's output
  output_gradient,  ///< the gradient that the backward pass is given
  parameter,
  parameter_gradient,
  next_embedding_gradient,
  tokens,
  positions,
  boundaries,
  rope_table,
  next_embedding,  ///< of the tokens behind those that the block's input has seen last
  router_bias,     ///< of one layer, of the choice of experts; learns by no gradient
  expert_load,     ///< rows that experts of one layer got in this step
  pack_load,       ///< rows that experts of all layers got of one pack
  balance_loss     ///< sum of the auxiliary loss
};

/// A tensor of a block. Symbolic extents are SymbolKinds, `Extent::of(SymbolId(kind))`, until
/// lowering knows which layer they belong to.
struct GraphValue {
  std::array<Extent, 3> shape{1, 1, 1};
  DType dtype = DType::fp32;
  ValueRole role = ValueRole::activation;
  bool is_recorded = false;  ///< kept from the forward pass when the rest is recomputed
};

/// A kernel on values of its block.
struct GraphOp {
  Work work;
  Lane lane = Lane::compute;
  std::uint8_t part = 0;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

/// One tensor of the published weights inside a parameter value.
struct Piece {
  std::string name;  ///< below the layer's prefix; `{}` stands for the global expert index
  std::array<std::int64_t, 3> shape{1, 1, 1};
  std::int32_t n_dimensions = 1;
  std::int32_t expert = -1;  ///< local expert, or −1
  std::int64_t offset_elements = 0;
  bool is_stacked = false;  ///< the published tensor has those of all experts, one behind the other
};

/// A parameter with its gradient and the published tensors in it.
struct GraphParameter {
  ValueId value{};
  ValueId gradient{};
  bool is_expert = false;
  bool is_fp8 = false;    ///< in its products, and so when it is gathered
  bool is_split = false;  ///< tensor parallel ranks have a part each
  std::int64_t elements = 0;
  std::int64_t largest_piece = 0;  ///< elements of its largest published tensor
  std::vector<Piece> pieces;
};

/// A run of ops with one input and one output.
struct Block {
  std::string prefix;  ///< of the parameters' names; `{}` stands for the layer
  std::vector<GraphValue> values;
  std::vector<GraphParameter> parameters;
  std::vector<GraphOp> forward;
  std::vector<GraphOp> backward;
};

/// A norm, and what of each row its backward pass needs.
struct NormKernels {
  Kernel forward = Kernel::rms_norm;
  Kernel backward = Kernel::rms_norm_backward;
  std::int64_t moments = 1;  ///< fp32 values a row
};

/// Everything one micro-step of a decoder computes on one rank.
struct OpGraph {
  std::vector<std::string> parts;
  Block embedding;
  std::vector<Block> decoder;         ///< distinct decoder layers
  std::vector<std::uint16_t> layers;  ///< index into `decoder`, per layer
  std::int64_t further_tokens = 0;    ///< so many of the last layers predict one each
  Block head;                         ///< final norm and lm_head; ops are the loss's, see lower
  bool ties_embedding = false;
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  std::int64_t vocabulary = 0;   ///< rows of the embedding, and of lm_head, on a rank
  std::int64_t routed_rows = 0;  ///< rows that a rank sends to experts per layer
  std::int64_t rotary_size = 0;  ///< of the table of rotary angles; 0 without them
  NormKernels norm;              ///< of the final norm
  /// Into how many equal parts the attention of a pack falls over ranks and ops; an attention op
  /// computes one.
  std::int64_t attention_parts = 1;
  DType dtype = DType::fp32;
  ModelConstants constants;
};

/// Whether an op belongs to the forward or to the backward pass of its block.
enum class Pass : std::uint8_t { forward, backward };

/// Where an op runs, over which ranks if it is a collective, and in which type where that is not
/// the graph's.
struct OpPlace {
  OpPlace(Lane on = Lane::compute,
          Group over = Group::expert,  // NOLINT(google-explicit-constructor)
          std::optional<DType> in = std::nullopt)
      : lane(on), group(over), dtype(in) {}

  Lane lane;
  Group group;
  std::optional<DType> dtype;
};

/// Writes one block; the values of ops are made as they are named.
class BlockWriter {
 public:
  BlockWriter(OpGraph& graph, Block& block) : graph_(graph), block_(block) {}

  ValueId value(std::array<Extent, 3> shape, ValueRole role = ValueRole::activation);
  ValueId value(std::array<Extent, 3> shape, DType dtype, bool is_recorded = false);
  /// A parameter made of `pieces`, with its gradient.
  const GraphParameter& parameter(std::array<std::int64_t, 3> shape, bool is_expert,
                                  std::vector<Piece> pieces);
  /// The same of a parameter of which tensor parallel ranks have a part each, this one of `shape`.
  const GraphParameter& part_of_parameter(std::array<std::int64_t, 3> shape,
                                          std::vector<Piece> pieces);
  void forward(Kernel kernel, std::string_view part, std::initializer_list<Extent> extents,
               std::initializer_list<ValueId> inputs, std::initializer_list<ValueId> outputs,
               const OpPlace& place = {});
  void backward(Kernel kernel, std::string_view part, std::initializer_list<Extent> extents,
                std::initializer_list<ValueId> inputs, std::initializer_list<ValueId> outputs,
                const OpPlace& place = {});
  /// Either of the two.
  void in(Pass pass, Kernel kernel, std::string_view part, std::initializer_list<Extent> extents,
          std::initializer_list<ValueId> inputs, std::initializer_list<ValueId> outputs,
          const OpPlace& place = {});

 private:
  GraphOp op(Kernel kernel, std::string_view part, std::initializer_list<Extent> extents,
             std::initializer_list<ValueId> inputs, std::initializer_list<ValueId> outputs,
             const OpPlace& place);

  OpGraph& graph_;
  Block& block_;
};

/// Which forward ops must run again before the backward pass, if only the input and the values that
/// `is_kept` marks were kept.
std::vector<bool> recomputed_ops(const Block& block, const std::vector<bool>& is_kept);

/// Elements of all parameters of all ranks: experts of a rank count `expert_parallel` times, parts
/// of other parameters `tensor_parallel` times.
std::int64_t count_parameters(const OpGraph& graph, std::int64_t expert_parallel,
                              std::int64_t tensor_parallel = 1);

}  // namespace xt

#include "costmodel/models/transformer_engine.h"

#include <map>
#include <optional>
#include <span>
#include <utility>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

// The quantised copies of an operand: as it is, and transposed.
struct Quantised {
  std::optional<ValueId> by_row, by_column;
};

bool is_norm(Kernel kernel) { return kernel == Kernel::rms_norm || kernel == Kernel::layer_norm; }

class TransformerEngine {
 public:
  TransformerEngine(OpGraph& graph, Block& block, Fp8Recipe recipe)
      : graph_(graph),
        block_(block),
        recipe_(recipe),
        is_multiplied_(block.values.size(), false),
        is_read_wide_(block.values.size(), false) {}

  void run() {
    find_readers();
    block_.forward = rewritten(block_.forward);
    block_.backward = rewritten(block_.backward);
  }

 private:
  bool is_gathered(const GraphOp& op) const {
    return is_over_tensor_ranks(op, Kernel::all_gather) && !is_read_wide_[at(op.outputs[0])];
  }
  bool writes_fp8(const GraphOp& op) const {
    return recipe_ == Fp8Recipe::delayed && is_norm(op.work.kernel) &&
           !is_read_wide_[at(op.outputs[0])];
  }
  void find_readers();
  std::int64_t tensors(const GraphOp& reader) const;
  std::vector<GraphOp> rewritten(const std::vector<GraphOp>& ops);
  GraphOp multiplied(GraphOp op, std::vector<GraphOp>& to);
  ValueId add(GraphOp pass, std::uint8_t part, std::vector<ValueId> outputs,
              std::vector<GraphOp>& to);
  ValueId by_row(ValueId value, const GraphOp& reader, std::vector<GraphOp>& to);
  ValueId by_column(ValueId value, const GraphOp& reader, std::vector<GraphOp>& to);
  void quantise(ValueId value, const GraphOp& reader, std::vector<GraphOp>& to);

  OpGraph& graph_;
  Block& block_;
  Fp8Recipe recipe_;
  std::map<ValueId, Quantised> known_;
  std::vector<bool> is_multiplied_;  ///< by value: a product reads it, not only its gathered whole
  std::vector<bool> is_read_wide_;   ///< by value: somebody reads it in 16 bits, or nobody reads it
};

// Who reads what; a gathered whole that is read wide is gathered wide.
void TransformerEngine::find_readers() {
  std::vector<bool> is_read(block_.values.size(), false);
  const auto visit = [&](const GraphOp& op) {
    const bool is_product = is_linear(graph_, op);
    const std::size_t n_operands = !is_product ? 0 : is_of_weight(op.work.kernel) ? 2 : 1;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::size_t id = at(op.inputs[i]);
      is_read[id] = true;
      if (i < n_operands) is_multiplied_[id] = true;
      if (i >= n_operands && !is_over_tensor_ranks(op, Kernel::all_gather))
        is_read_wide_[id] = true;
    }
  };
  for (const auto* ops : {&block_.forward, &block_.backward})
    for (const GraphOp& op : *ops) visit(op);
  for (std::size_t id = 0; id < is_read.size(); ++id)
    if (!is_read[id]) is_read_wide_[id] = true;
  for (const auto* ops : {&block_.forward, &block_.backward})
    for (const GraphOp& op : *ops)
      if (is_over_tensor_ranks(op, Kernel::all_gather) && is_read_wide_[at(op.outputs[0])])
        is_read_wide_[at(op.inputs[0])] = true;
}

std::vector<GraphOp> TransformerEngine::rewritten(const std::vector<GraphOp>& ops) {
  std::vector<GraphOp> to;
  for (GraphOp op : ops) {
    if (is_linear(graph_, op)) {
      op = multiplied(std::move(op), to);
    } else if (is_gathered(op) || writes_fp8(op)) {
      const ValueId narrow = like(block_, op.outputs[0], DType::fp8);
      if (is_gathered(op)) {
        op.inputs[0] = by_row(op.inputs[0], op, to);
        op.work.dtype = DType::fp8;
      }
      known_[std::exchange(op.outputs[0], narrow)].by_row = narrow;
    }
    to.push_back(std::move(op));
  }
  return to;
}

GraphOp TransformerEngine::multiplied(GraphOp op, std::vector<GraphOp>& to) {
  parameter_of(block_, op).is_fp8 = true;
  op.work.dtype = DType::fp8;
  if (!is_of_weight(op.work.kernel)) {
    op.inputs[0] = by_row(op.inputs[0], op, to);
    return op;
  }
  for (ValueId& operand : std::span(op.inputs).first(2)) operand = by_column(operand, op, to);
  return op;
}

// What the pass writes first.
ValueId TransformerEngine::add(GraphOp pass, std::uint8_t part, std::vector<ValueId> outputs,
                               std::vector<GraphOp>& to) {
  pass.part = part;
  pass.outputs = std::move(outputs);
  to.push_back(std::move(pass));
  return to.back().outputs.front();
}

// How many operands of its own the reader has of a value: rows of experts are quantised expert by
// expert, by one kernel for all of them under delayed scaling alone.
//
// Source: Transformer Engine, pytorch/csrc/extensions/cast.cpp, multi_tensor_quantize_impl
std::int64_t TransformerEngine::tensors(const GraphOp& reader) const {
  constexpr std::size_t experts = 3;
  const bool is_grouped = kernel_class(reader.work.kernel) == KernelClass::grouped_matrix;
  return is_grouped && recipe_ != Fp8Recipe::delayed ? reader.work.extents[experts].code : 1;
}

// Both copies by one pass, but of what is gathered first, and transposed then. A largest element is
// cleared, found and made a scale.
//
// Source: Transformer Engine, common/recipe/current_scaling.cu
void TransformerEngine::quantise(ValueId value, const GraphOp& reader, std::vector<GraphOp>& to) {
  constexpr std::int64_t kernels_for_a_scale = 3;
  const std::uint8_t part = reader.part;
  const std::int64_t n_tensors = tensors(reader);
  const std::int64_t wide = width(graph_.dtype), narrow = width(DType::fp8);
  if (recipe_ == Fp8Recipe::tensorwise) {
    block_.values.push_back({{1, 1, 1}, DType::fp32, ValueRole::activation, false});
    const auto largest = static_cast<ValueId>(block_.values.size() - 1);
    add(pass_over(graph_, block_, value, wide, kernels_for_a_scale * n_tensors), part, {largest},
        to);
  }
  Quantised& copies = known_[value];
  std::vector<ValueId> outputs = {like(block_, value, DType::fp8)};
  copies.by_row = outputs.front();
  if (is_multiplied_[at(value)]) {
    outputs.push_back(like(block_, value, DType::fp8));
    copies.by_column = outputs.back();
  }
  const auto n = static_cast<std::int64_t>(outputs.size());
  add(pass_over(graph_, block_, value, wide + n * narrow, n_tensors), part, std::move(outputs), to);
}

ValueId TransformerEngine::by_row(ValueId value, const GraphOp& reader, std::vector<GraphOp>& to) {
  if (!known_[value].by_row) quantise(value, reader, to);
  return *known_[value].by_row;
}

ValueId TransformerEngine::by_column(ValueId value, const GraphOp& reader,
                                     std::vector<GraphOp>& to) {
  const ValueId row = by_row(value, reader, to);
  Quantised& copies = known_[value];
  if (!copies.by_column)
    copies.by_column = add(pass_over(graph_, block_, row, 2 * width(DType::fp8)), reader.part,
                           {like(block_, value, DType::fp8)}, to);
  return *copies.by_column;
}

}  // namespace

void use_transformer_engine(OpGraph& graph, Block& block, Fp8Recipe recipe) {
  TransformerEngine(graph, block, recipe).run();
}

}  // namespace xt

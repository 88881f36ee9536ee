#include "costmodel/ir/op_graph.h"

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

std::uint8_t part_index(std::vector<std::string>& parts, std::string_view name) {
  const auto found = std::find(parts.begin(), parts.end(), name);
  if (found != parts.end()) return static_cast<std::uint8_t>(found - parts.begin());
  XT_CHECK(parts.size() < 255);
  parts.emplace_back(name);
  return static_cast<std::uint8_t>(parts.size() - 1);
}

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

std::int64_t elements_of(const Block& block, std::int64_t expert_parallel,
                         std::int64_t tensor_parallel) {
  std::int64_t sum = 0;
  for (const GraphParameter& parameter : block.parameters)
    sum += parameter.elements * (parameter.is_expert ? expert_parallel : 1) *
           (parameter.is_split ? tensor_parallel : 1);
  return sum;
}

}  // namespace

ValueId BlockWriter::value(std::array<Extent, 3> shape, ValueRole role) {
  const bool is_recorded = role == ValueRole::pack_load;  // counted once
  block_.values.push_back({shape, graph_.dtype, role, is_recorded});
  return static_cast<ValueId>(block_.values.size() - 1);
}

ValueId BlockWriter::value(std::array<Extent, 3> shape, DType dtype, bool is_recorded) {
  block_.values.push_back({shape, dtype, ValueRole::activation, is_recorded});
  return static_cast<ValueId>(block_.values.size() - 1);
}

const GraphParameter& BlockWriter::parameter(std::array<std::int64_t, 3> shape, bool is_expert,
                                             std::vector<Piece> pieces) {
  GraphParameter parameter;
  const std::array<Extent, 3> extents{shape[0], shape[1], shape[2]};
  parameter.value = value(extents, ValueRole::parameter);
  parameter.gradient = value(extents, ValueRole::parameter_gradient);
  parameter.is_expert = is_expert;
  parameter.elements = shape[0] * shape[1] * shape[2];
  for (const Piece& piece : pieces)
    parameter.largest_piece =
        std::max(parameter.largest_piece, piece.shape[0] * piece.shape[1] * piece.shape[2]);
  parameter.pieces = std::move(pieces);
  block_.parameters.push_back(std::move(parameter));
  return block_.parameters.back();
}

const GraphParameter& BlockWriter::part_of_parameter(std::array<std::int64_t, 3> shape,
                                                     std::vector<Piece> pieces) {
  parameter(shape, false, std::move(pieces));
  block_.parameters.back().is_split = true;
  return block_.parameters.back();
}

GraphOp BlockWriter::op(Kernel kernel, std::string_view part, std::initializer_list<Extent> extents,
                        std::initializer_list<ValueId> inputs,
                        std::initializer_list<ValueId> outputs, const OpPlace& place) {
  XT_CHECK(extents.size() <= max_extents);
  GraphOp result;
  result.work.kernel = kernel;
  result.work.dtype = place.dtype.value_or(graph_.dtype);
  if (kernel_class(kernel) == KernelClass::collective) result.work.group = place.group;
  std::copy(extents.begin(), extents.end(), result.work.extents.begin());
  result.lane = place.lane;
  result.part = part_index(graph_.parts, part);
  result.inputs = inputs;
  result.outputs = outputs;
  return result;
}

void BlockWriter::in(Pass pass, Kernel kernel, std::string_view part,
                     std::initializer_list<Extent> extents, std::initializer_list<ValueId> inputs,
                     std::initializer_list<ValueId> outputs, const OpPlace& place) {
  auto& ops = pass == Pass::forward ? block_.forward : block_.backward;
  ops.push_back(op(kernel, part, extents, inputs, outputs, place));
}

void BlockWriter::forward(Kernel kernel, std::string_view part,
                          std::initializer_list<Extent> extents,
                          std::initializer_list<ValueId> inputs,
                          std::initializer_list<ValueId> outputs, const OpPlace& place) {
  in(Pass::forward, kernel, part, extents, inputs, outputs, place);
}

void BlockWriter::backward(Kernel kernel, std::string_view part,
                           std::initializer_list<Extent> extents,
                           std::initializer_list<ValueId> inputs,
                           std::initializer_list<ValueId> outputs, const OpPlace& place) {
  in(Pass::backward, kernel, part, extents, inputs, outputs, place);
}

std::vector<bool> recomputed_ops(const Block& block, const std::vector<bool>& is_kept) {
  std::vector<bool> wanted(block.values.size(), false);
  for (const GraphOp& op : block.backward)
    for (const ValueId input : op.inputs) wanted[at(input)] = true;
  std::vector<bool> result(block.forward.size(), false);
  for (std::size_t i = block.forward.size(); i-- > 0;) {
    const GraphOp& op = block.forward[i];
    const bool is_wanted = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
      return wanted[at(output)] && !is_kept[at(output)];
    });
    if (!is_wanted) continue;
    result[i] = true;
    for (const ValueId input : op.inputs) wanted[at(input)] = true;
  }
  return result;
}

std::int64_t count_parameters(const OpGraph& graph, std::int64_t expert_parallel,
                              std::int64_t tensor_parallel) {
  const auto elements = [&](const Block& block) {
    return elements_of(block, expert_parallel, tensor_parallel);
  };
  std::int64_t sum = elements(graph.embedding) + elements(graph.head);
  for (const std::uint16_t layer : graph.layers) sum += elements(graph.decoder[layer]);
  return sum;
}

}  // namespace xt

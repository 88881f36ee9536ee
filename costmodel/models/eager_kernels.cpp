#include "costmodel/models/eager_kernels.h"

#include <map>

namespace xt {
namespace {

class EagerKernels {
 public:
  EagerKernels(OpGraph& graph, Block& block) : graph_(graph), block_(block) {}

  void run() {
    block_.forward = rewritten(block_.forward);
    block_.backward = rewritten(block_.backward);
  }

 private:
  std::vector<GraphOp> rewritten(const std::vector<GraphOp>& ops);
  void rewrite_norm(const GraphOp& op);
  void rewrite_norm_backward(const GraphOp& op);
  void rewrite_rotary(const GraphOp& op);
  void rewrite_added_product(const GraphOp& op);
  ValueId like(ValueId id, DType dtype);
  void pass(const GraphOp& from, std::int64_t n, ValueId x, ValueId y, bool sums = false);
  void operate(Kernel kernel, const GraphOp& from, std::int64_t n, std::vector<ValueId> inputs,
               ValueId y);
  // Whether a value is in fp32 though products are not.
  bool is_wide(ValueId id) const {
    return graph_.dtype != DType::fp32 &&
           block_.values[static_cast<std::size_t>(id)].dtype == DType::fp32;
  }
  std::int64_t width_of(ValueId id) const {
    return width(block_.values[static_cast<std::size_t>(id)].dtype);
  }

  // What the backward pass of a norm reads: its input in fp32, and that scaled.
  struct Kept {
    ValueId wide, scaled;
  };

  OpGraph& graph_;
  Block& block_;
  std::vector<GraphOp> written_;
  std::map<ValueId, Kept> kept_;  ///< by the norm's rstd
};

std::vector<GraphOp> EagerKernels::rewritten(const std::vector<GraphOp>& ops) {
  written_.clear();
  for (const GraphOp& op : ops) {
    switch (op.work.kernel) {
      case Kernel::rms_norm:
        rewrite_norm(op);
        break;
      case Kernel::rms_norm_backward:
        rewrite_norm_backward(op);
        break;
      case Kernel::rope:
      case Kernel::rope_backward:
        rewrite_rotary(op);
        break;
      case Kernel::matmul_input_backward_add:
        rewrite_added_product(op);
        break;
      default:
        written_.push_back(op);
    }
  }
  return std::move(written_);
}

ValueId EagerKernels::like(ValueId id, DType dtype) {
  GraphValue value = block_.values[static_cast<std::size_t>(id)];
  value.dtype = dtype;
  value.role = ValueRole::activation;
  value.is_recorded = false;
  block_.values.push_back(value);
  return static_cast<ValueId>(block_.values.size() - 1);
}

// One kernel that reads `n` elements of x and writes as many of y, or a sum of each row or column.
void EagerKernels::pass(const GraphOp& from, std::int64_t n, ValueId x, ValueId y, bool sums) {
  GraphOp op;
  op.work = {Kernel::cast, graph_.dtype, Group::none, {}};
  op.work.extents = {n, width_of(x) + (sums ? 0 : width_of(y))};
  op.part = from.part;
  op.inputs = {x};
  op.outputs = {y};
  written_.push_back(std::move(op));
}

void EagerKernels::operate(Kernel kernel, const GraphOp& from, std::int64_t n,
                           std::vector<ValueId> inputs, ValueId y) {
  GraphOp op;
  const DType dtype = block_.values[static_cast<std::size_t>(inputs.front())].dtype;
  op.work = {kernel, dtype, Group::none, {}};
  op.work.extents = {n};
  op.part = from.part;
  op.inputs = std::move(inputs);
  op.outputs = {y};
  written_.push_back(std::move(op));
}

void EagerKernels::rewrite_norm(const GraphOp& op) {
  const ValueId x = op.inputs[0], y = op.outputs[0], rstd = op.outputs[1];
  const std::int64_t n = op.work.extents[0].code * op.work.extents[1].code;
  const Kept kept{is_wide(x) ? x : like(y, DType::fp32), like(y, graph_.dtype)};
  const ValueId squares = like(y, DType::fp32), scaled = like(y, DType::fp32);
  if (!is_wide(x)) pass(op, n, x, kept.wide);
  pass(op, n, kept.wide, squares);
  pass(op, n, squares, rstd, true);
  pass(op, n, kept.wide, scaled);
  pass(op, n, scaled, kept.scaled);
  pass(op, n, kept.scaled, y);
  kept_.insert({rstd, kept});
}

// y = w·narrow(wide·rstd): back through each factor, and to rstd through the mean of the squares.
void EagerKernels::rewrite_norm_backward(const GraphOp& op) {
  const ValueId dy = op.inputs[0], rstd = op.inputs[3], dx = op.outputs[0];
  const std::int64_t n = op.work.extents[0].code * op.work.extents[1].code;
  const Kept& kept = kept_.at(rstd);
  const ValueId d_scaled = like(dy, graph_.dtype), product = like(dy, graph_.dtype);
  const ValueId d_wide = like(dy, DType::fp32), along = like(dy, DType::fp32);
  const ValueId dx_wide = is_wide(dx) ? dx : like(dy, DType::fp32);
  const ValueId through_rstd = like(dy, DType::fp32);
  const ValueId d_rstd = like(rstd, DType::fp32);
  pass(op, n, dy, d_scaled);
  operate(Kernel::multiply, op, n, {dy, kept.scaled}, product);
  pass(op, n, product, op.outputs[1], true);
  pass(op, n, d_scaled, d_wide);
  operate(Kernel::multiply, op, n, {d_wide, kept.wide}, along);
  pass(op, n, along, d_rstd, true);
  pass(op, n, d_wide, dx_wide);
  pass(op, n, kept.wide, through_rstd);
  operate(Kernel::add, op, n, {through_rstd}, dx_wide);
  if (!is_wide(dx)) pass(op, n, dx_wide, dx);
}

void EagerKernels::rewrite_rotary(const GraphOp& op) {
  const ValueId x = op.outputs[0];
  const std::int64_t n =
      op.work.extents[0].code * op.work.extents[1].code * op.work.extents[2].code;
  const ValueId wide = like(x, DType::fp32), rotated = like(x, DType::fp32);
  pass(op, n, x, wide);
  pass(op, n, wide, rotated);
  pass(op, n, rotated, x);
}

// Autograd sums the gradients of a value that several products read by kernels of their own. Who
// has no rotary angles has one weight for queries, keys and values: GPT-2, MPT, BLOOM and Baichuan.
void EagerKernels::rewrite_added_product(const GraphOp& op) {
  const std::string_view part = graph_.parts[op.part];
  const bool is_packed = graph_.rotary_size == 0 && (part == "k_proj" || part == "v_proj");
  written_.push_back(op);
  if (is_packed) return;
  const ValueId sum = op.outputs[0];
  const ValueId addend = like(sum, block_.values[static_cast<std::size_t>(sum)].dtype);
  written_.back().work.kernel = Kernel::matmul_input_backward;
  written_.back().outputs = {addend};
  operate(Kernel::add, op, op.work.extents[0].code * op.work.extents[2].code, {addend}, sum);
}

}  // namespace

void use_eager_kernels(OpGraph& graph, Block& block) { EagerKernels(graph, block).run(); }

}  // namespace xt

#include "costmodel/models/exchange_in_pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "costmodel/models/linear_ops.h"

namespace xt {
namespace {

constexpr std::int64_t scattered_pieces = 4;

// Streams that products of pieces take turns on.
//
// Source: Transformer Engine, common/comm_gemm_overlap, split_overlap_ag and split_overlap_rs on
// _stream_compute, of which pytorch/module/base.py, initialize_ub, asks for three
constexpr std::int64_t streams = 3;

void run_beside(Work& product, std::int64_t pieces) {
  product.extents[3] = std::min(streams, pieces);
}

bool reads_rows(const GraphOp& op, ValueId x) {
  return kernel_class(op.work.kernel) == KernelClass::matrix && !is_of_weight(op.work.kernel) &&
         op.inputs[0] == x;
}

class Pieces {
 public:
  Pieces(Block& block, std::int64_t ranks) : block_(block), ranks_(ranks) {}

  void run() {
    is_read_whole_.assign(block_.values.size(), false);
    for (const auto* ops : {&block_.forward, &block_.backward})
      for (const GraphOp& op : *ops)
        for (const ValueId id : op.inputs)
          if (!reads_rows(op, id)) is_read_whole_[at(id)] = true;
    block_.forward = rewritten(block_.forward);
    block_.backward = rewritten(block_.backward);
  }

 private:
  std::vector<GraphOp> rewritten(const std::vector<GraphOp>& ops);
  std::vector<ValueId> around_ring(const GraphOp& gather, std::vector<GraphOp>& to);
  void multiply_by_piece(const GraphOp& product, const std::vector<ValueId>& pieces,
                         std::vector<GraphOp>& to) const;
  void scatter_by_piece(const GraphOp& product, const GraphOp& scatter, std::vector<GraphOp>& to);
  ValueId rows_of(ValueId whole, std::int64_t rows);

  Block& block_;
  std::int64_t ranks_;
  std::vector<bool> is_read_whole_;  ///< by value: other than as rows of a product
};

// The product alone that writes what `scatter` reads; null if there are several.
const GraphOp* only_writer(const std::vector<GraphOp>& ops, const GraphOp& scatter) {
  const GraphOp* found = nullptr;
  for (const GraphOp& op : ops) {
    if (std::ranges::find(op.outputs, scatter.inputs[0]) == op.outputs.end()) continue;
    if (found != nullptr) return nullptr;
    found = &op;
  }
  return found != nullptr && found->work.kernel == Kernel::matmul ? found : nullptr;
}

bool any_reads_rows(const std::vector<GraphOp>& ops, ValueId x) {
  return std::ranges::any_of(ops, [&](const GraphOp& op) { return reads_rows(op, x); });
}

std::vector<GraphOp> Pieces::rewritten(const std::vector<GraphOp>& ops) {
  std::map<ValueId, std::vector<ValueId>> gathered;    // by the whole
  std::map<const GraphOp*, const GraphOp*> scattered;  // by the product
  for (const GraphOp& op : ops)
    if (is_over_tensor_ranks(op, Kernel::reduce_scatter))
      if (const GraphOp* product = only_writer(ops, op)) scattered[product] = &op;
  const auto is_cut = [&](const GraphOp& op) {
    return std::ranges::any_of(scattered, [&](const auto& of) { return of.second == &op; });
  };
  std::vector<GraphOp> to;
  for (const GraphOp& op : ops) {
    if (is_over_tensor_ranks(op, Kernel::all_gather) && any_reads_rows(ops, op.outputs[0])) {
      gathered[op.outputs[0]] = around_ring(op, to);
    } else if (const auto product = scattered.find(&op); product != scattered.end()) {
      scatter_by_piece(op, *product->second, to);
    } else if (!op.inputs.empty() && gathered.contains(op.inputs[0]) &&
               reads_rows(op, op.inputs[0])) {
      multiply_by_piece(op, gathered[op.inputs[0]], to);
    } else if (!is_cut(op)) {
      to.push_back(op);
    }
  }
  return to;
}

ValueId Pieces::rows_of(ValueId whole, std::int64_t rows) {
  GraphValue piece = block_.values[at(whole)];
  piece.shape[0] = rows;
  piece.role = ValueRole::activation;
  block_.values.push_back(piece);
  return static_cast<ValueId>(block_.values.size() - 1);
}

// The ranks' pieces in the order in which they arrive, a rank's own first.
std::vector<ValueId> Pieces::around_ring(const GraphOp& gather, std::vector<GraphOp>& to) {
  const ValueId whole = gather.outputs[0];
  const std::int64_t rows = block_.values[at(whole)].shape[0].code / ranks_;
  std::vector<ValueId> pieces = {gather.inputs[0]};
  for (std::int64_t step = 1; step < ranks_; ++step) {
    GraphOp pass = gather;
    pass.work.kernel = Kernel::send_receive;
    pass.work.extents[0] = gather.work.extents[0].code / ranks_;
    pass.inputs = {pieces.back()};
    pieces.push_back(rows_of(whole, rows));
    pass.outputs = {pieces.back()};
    if (step + 1 == ranks_ && is_read_whole_[at(whole)]) pass.outputs.push_back(whole);
    to.push_back(std::move(pass));
  }
  return pieces;
}

void Pieces::multiply_by_piece(const GraphOp& product, const std::vector<ValueId>& pieces,
                               std::vector<GraphOp>& to) const {
  for (const ValueId piece : pieces) {
    to.push_back(product);
    to.back().work.extents[0] = product.work.extents[0].code / ranks_;
    run_beside(to.back().work, ranks_);
    to.back().inputs[0] = piece;
  }
}

void Pieces::scatter_by_piece(const GraphOp& product, const GraphOp& scatter,
                              std::vector<GraphOp>& to) {
  const std::int64_t rows = product.work.extents[0].code;
  const std::int64_t row = scatter.work.extents[0].code / rows;
  for (std::int64_t i = 0; i < scattered_pieces; ++i) {
    const std::int64_t n = rows * (i + 1) / scattered_pieces - rows * i / scattered_pieces;
    if (n == 0) continue;
    const ValueId piece = rows_of(product.outputs[0], n);
    to.push_back(product);
    to.back().work.extents[0] = n;
    run_beside(to.back().work, scattered_pieces);
    to.back().outputs = {piece};
    to.push_back(scatter);
    to.back().work.extents[0] = n * row;
    to.back().inputs = {piece};
  }
}

}  // namespace

void exchange_in_pieces(Block& block, std::int64_t ranks) { Pieces(block, ranks).run(); }

}  // namespace xt

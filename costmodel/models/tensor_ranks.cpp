#include "costmodel/models/tensor_ranks.h"

namespace xt {
namespace {

const OpPlace over_tensor{Lane::expert, Group::tensor};

}  // namespace

TensorRanks::TensorRanks(BlockWriter& write, const GraphOptions& options, std::int64_t width)
    : write_(write),
      tokens_(options.tokens),
      ranks_(options.tensor_parallel),
      width_(width),
      shares_tokens_(options.tensor_sequence_parallel),
      overlaps_(options.overlaps_tensor_parallel),
      copies_(options.copies_shared_tokens),
      dtype_(options.dtype) {}

ValueId TensorRanks::reordered(Pass pass, std::string_view part, ValueId x) {
  if (!copies_) return x;
  const ValueId copy = write_.value({tokens_, width_, 1});
  write_.in(pass, Kernel::cast, part, {tokens_ * width_, 2 * xt::width(dtype_)}, {x}, {copy});
  return copy;
}

ValueId TensorRanks::whole(Pass pass, std::string_view part, ValueId x) {
  if (!shares_tokens()) return x;
  const ValueId gathered = write_.value({tokens_, width_, 1});
  write_.in(pass, Kernel::all_gather, part, {tokens_ * width_}, {x}, {gathered}, over_tensor);
  return reordered(pass, part, gathered);
}

ValueId TensorRanks::whole_again(std::string_view part, ValueId x, ValueId seen) {
  return overlaps_ ? whole(Pass::backward, part, x) : seen;
}

ValueId TensorRanks::partial(ValueId sum) {
  return shares_tokens() ? write_.value({tokens_, width_, 1}) : sum;
}

void TensorRanks::add_up(Pass pass, std::string_view part, ValueId partial, ValueId sum) {
  if (shares_tokens()) {
    write_.in(pass, Kernel::reduce_scatter, part, {tokens_ * width_},
              {reordered(pass, part, partial)}, {sum}, over_tensor);
  } else if (!is_one()) {
    write_.in(pass, Kernel::all_reduce, part, {tokens_ * width_}, {}, {sum}, over_tensor);
  }
}

}  // namespace xt

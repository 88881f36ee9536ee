#include <array>

#include "executor/aten_kernels/attention_parts.h"

namespace xt {
namespace {

// What both directions say of the mask.
struct Mask {
  at::Tensor boundaries;  ///< of the documents there are, int32
  std::int64_t longest;
  std::optional<std::int64_t> left, right;

  Mask(const KernelCall& call, const AttentionExtents& of, std::size_t operand)
      : boundaries(in(call, operand, {of.T + 1}).narrow(0, 0, call.documents + 1)),
        longest(of.has_window ? of.T : of.reach) {
    if (!of.has_window) return;
    left = of.reach - 1;
    right = 0;
  }
};

}  // namespace

bool fits_flash(const KernelCall& call, const AttentionExtents& of) {
  constexpr std::int64_t elements_of_16_bytes = 8, widest_head = 256;
  return is_accelerated(call.inputs[0]) && call.inputs[0].scalar_type() == at::kBFloat16 &&
         of.D % elements_of_16_bytes == 0 && of.D <= widest_head && call.documents > 0;
}

FlashForward flash_forward(const KernelCall& call, const AttentionExtents& of) {
  const Mask mask(call, of, 3);
  const auto result = at::_flash_attention_forward(
      in(call, 0, {of.T, of.H, of.D}), in(call, 1, {of.T, of.K, of.D}),
      in(call, 2, {of.T, of.K, of.D}), mask.boundaries, mask.boundaries, mask.longest, mask.longest,
      /*dropout_p=*/0, /*is_causal=*/true, /*return_debug_mask=*/false, of.scale, mask.left,
      mask.right);
  return {std::get<0>(result), std::get<1>(result).t()};
}

// Without dropout the states of its random numbers are not read.
void flash_backward(const KernelCall& call, const AttentionExtents& of) {
  const Mask mask(call, of, 6);
  const at::Tensor d_o = in(call, 0, {of.T, of.H, of.D});
  const at::Tensor no_state = at::zeros({2}, beside(d_o, at::kUInt64));
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      d_o, in(call, 1, {of.T, of.H, of.D}), in(call, 2, {of.T, of.K, of.D}),
      in(call, 3, {of.T, of.K, of.D}), in(call, 4, {of.T, of.H, of.D}),
      in(call, 5, {of.T, of.H}).t().contiguous(), mask.boundaries, mask.boundaries, mask.longest,
      mask.longest, /*dropout_p=*/0, /*is_causal=*/true, no_state, no_state, of.scale, mask.left,
      mask.right);
  out(call, 0, {of.T, of.H, of.D}).copy_(dq);
  out(call, 1, {of.T, of.K, of.D}).copy_(dk);
  out(call, 2, {of.T, of.K, of.D}).copy_(dv);
}

}  // namespace xt

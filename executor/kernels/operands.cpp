#include "executor/kernels/operands.h"

#include <ATen/ops/empty.h>

#include "executor/kernels/vector_math.h"

namespace xt {
namespace {

template <typename From, typename To>
XT_PER_INSTRUCTION_SET void convert(const From* from, std::int64_t n, To* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) put(to[i], wide(from[i]));
}

}  // namespace

at::Tensor scratch(std::int64_t rows, std::int64_t columns) {
  return at::empty({rows, columns}, at::kFloat);
}

void widen(const at::Tensor& from, std::int64_t n, float* to) {
  with_element_of(from, [&](auto element) {
    const auto* source = elements<decltype(element)>(from, n);
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
      convert(source + begin, end - begin, to + begin);
    });
  });
}

void narrow(const float* from, std::int64_t n, const at::Tensor& to) {
  with_element_of(to, [&](auto element) {
    auto* target = writable<decltype(element)>(to, n);
    for_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
      convert(from + begin, end - begin, target + begin);
    });
  });
}

void widen(const c10::BFloat16* from, std::int64_t n, float* to) { convert(from, n, to); }

void narrow(const float* from, std::int64_t n, c10::BFloat16* to) { convert(from, n, to); }

WideInput::WideInput(const at::Tensor& operand, std::int64_t n) {
  if (operand.scalar_type() == at::kFloat) {
    data_ = elements<float>(operand, n);
    return;
  }
  copy_ = scratch(n, 1);
  auto* copied = copy_.mutable_data_ptr<float>();
  widen(operand, n, copied);
  data_ = copied;
}

WideOutput::WideOutput(const at::Tensor& operand, std::int64_t n, Reads reads)
    : operand_(operand), n_(n) {
  if (operand.scalar_type() == at::kFloat) {
    data_ = writable<float>(operand, n);
    return;
  }
  copy_ = scratch(n, 1);
  data_ = copy_.mutable_data_ptr<float>();
  if (reads == Reads::yes) widen(operand, n, data_);
}

void WideOutput::store() const {
  if (copy_.defined()) narrow(data_, n_, operand_);
}

}  // namespace xt

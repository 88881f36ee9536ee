#include "executor/kernels/kernel_table.h"

#include "costmodel/diagnostics/check.h"
#include "executor/kernels/bf16_gemm.h"
#include "executor/kernels/kernel_groups.h"
#include "executor/kernels/priced_only.h"

namespace xt {
namespace {

bool is_computed(const KernelRow& of) {
  if (is_priced_only(of.kernel)) return false;
  switch (of.kernel_class) {
    case KernelClass::matrix:
    case KernelClass::grouped_matrix:
    case KernelClass::attention:
    case KernelClass::memory_bound:
      return true;
    case KernelClass::collective:
    case KernelClass::copy:
    case KernelClass::host:
      return false;
  }
  XT_CHECK(false);
}

}  // namespace

void check_complete(const KernelTable& table) {
  for (const KernelRow& of : kernel_rows) {
    const bool is_there = table[static_cast<std::size_t>(of.kernel)] != nullptr;
    XT_CHECK(is_computed(of) == is_there, of.name);
  }
}

Bf16Products bf16_products_of_cpu() {
  return has_bf16_instructions() ? Bf16Products::as_they_are : Bf16Products::widened;
}

KernelTable cpu_kernels(Bf16Products products) {
  KernelTable table{};
  enter_elementwise(table);
  enter_activations(table);
  enter_balance_loss(table);
  enter_clamped_swiglu(table);
  enter_columns(table);
  enter_norms(table);
  enter_layer_norm(table);
  enter_matmul(table, products);
  enter_rope(table);
  enter_attention(table);
  enter_attention_backward(table);
  enter_routing(table);
  enter_sigmoid_router(table);
  enter_experts(table, products);
  enter_loss(table);
  enter_optimizer(table);
  enter_muon(table);
  check_complete(table);
  return table;
}

}  // namespace xt

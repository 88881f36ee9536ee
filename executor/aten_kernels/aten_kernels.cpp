#include "executor/aten_kernels/aten_kernels.h"

#include "executor/aten_kernels/groups.h"

namespace xt {

KernelTable aten_kernels() {
  KernelTable table{};
  enter_aten_activations(table);
  enter_aten_attention(table);
  enter_aten_elementwise(table);
  enter_aten_experts(table);
  enter_aten_loss(table);
  enter_aten_matmul(table);
  enter_aten_muon(table);
  enter_aten_norms(table);
  enter_aten_optimizer(table);
  enter_aten_rope(table);
  enter_aten_routers(table);
  enter_aten_rows(table);
  check_complete(table);
  return table;
}

}  // namespace xt

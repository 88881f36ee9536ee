#include "executor/aten_kernels/aten_kernels.h"
#include "executor/kernels/priced_only.h"
#include "tests/executor/kernels/harness.h"

namespace xt {
namespace {

TEST(KernelTable, HoldsEveryKernelThatIsExecutedAndNoOther) {
  for (const KernelRow& row : kernel_rows) {
    const bool is_lanes_business = row.kernel_class == KernelClass::collective ||
                                   row.kernel_class == KernelClass::copy ||
                                   row.kernel_class == KernelClass::host;
    for (const KernelTable& table : {cpu_kernels(), aten_kernels()})
      EXPECT_EQ(table[static_cast<std::size_t>(row.kernel)] == nullptr,
                is_lanes_business || is_priced_only(row.kernel))
          << row.name;
  }
}

}  // namespace
}  // namespace xt

#pragma once

// The kernels of executor/kernels in terms of ATen, for tensors on any device.

#include "executor/kernels/kernel_table.h"

namespace xt {

/// What cpu_kernels() computes, in ops of ATen: fp32 and bf16 operands, arithmetic in fp32, the
/// same bits every time. Nothing waits for a device, but for grouped products in fp32 or of rows
/// that are not a multiple of 16 bytes, which read the counts of rows on the host.
///
/// What a call allocates beside its outputs is ATen's business and not what xt_run_workspaces()
/// declares.
KernelTable aten_kernels();

}  // namespace xt

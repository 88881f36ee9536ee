#pragma once

// Each file of kernels enters its own into the table. Private to aten_kernels/.

#include "executor/kernels/kernel_table.h"

namespace xt {

/// Enters SwiGLU, its parts, the bounded one, and GELU.
void enter_aten_activations(KernelTable& table);
/// Enters attention, its backward and that of sinks.
void enter_aten_attention(KernelTable& table);
/// Enters embedding, residual, zeroing, conversion and moves of columns.
void enter_aten_elementwise(KernelTable& table);
/// Enters matrix products of grouped rows and their regrouping.
void enter_aten_experts(KernelTable& table);
/// Enters cross-entropy.
void enter_aten_loss(KernelTable& table);
/// Enters matrix products.
void enter_aten_matmul(KernelTable& table);
/// Enters what Muon does.
void enter_aten_muon(KernelTable& table);
/// Enters RMSNorm, LayerNorm and their backward.
void enter_aten_norms(KernelTable& table);
/// Enters gradient norm, clipping and AdamW.
void enter_aten_optimizer(KernelTable& table);
/// Enters rotary position embedding.
void enter_aten_rope(KernelTable& table);
/// Enters routers, what their bias learns by, and their auxiliary loss.
void enter_aten_routers(KernelTable& table);
/// Enters the sorting of rows and their weighted sum.
void enter_aten_rows(KernelTable& table);

}  // namespace xt

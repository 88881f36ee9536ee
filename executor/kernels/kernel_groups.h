#pragma once

// Each file of kernels enters its own into the table. Private to kernels/.

#include "executor/kernels/kernel_table.h"

namespace xt {

/// Enters embedding, residual, zeroing and conversion.
void enter_elementwise(KernelTable& table);
/// Enters SwiGLU, its parts, and GELU.
void enter_activations(KernelTable& table);
/// Enters the auxiliary loss of routers.
void enter_balance_loss(KernelTable& table);
/// Enters the bounded SwiGLU of experts.
void enter_clamped_swiglu(KernelTable& table);
/// Enters moves of columns.
void enter_columns(KernelTable& table);
/// Enters RMSNorm and its backward.
void enter_norms(KernelTable& table);
/// Enters LayerNorm and its backward.
void enter_layer_norm(KernelTable& table);
/// Enters matrix products.
void enter_matmul(KernelTable& table, Bf16Products products);
/// Enters rotary position embedding.
void enter_rope(KernelTable& table);
/// Enters attention.
void enter_attention(KernelTable& table);
/// Enters the backward of attention.
void enter_attention_backward(KernelTable& table);
/// Enters router, sorting of rows and their weighted sum.
void enter_routing(KernelTable& table);
/// Enters the router by sigmoid and what its bias learns by.
void enter_sigmoid_router(KernelTable& table);
/// Enters matrix products of grouped rows and their regrouping.
void enter_experts(KernelTable& table, Bf16Products products);
/// Enters cross-entropy.
void enter_loss(KernelTable& table);
/// Enters what Muon does.
void enter_muon(KernelTable& table);
/// Enters gradient norm, clipping and AdamW.
void enter_optimizer(KernelTable& table);

}  // namespace xt

#pragma once

// Engines with tensor parallelism, pipelines and stages of ZeRO: Megatron-LM, DeepSpeed, and what
// is like one of these or like FSDP but for a few rules. Private to lower/.

#include "planner/lower/fsdp_engines.h"

namespace xt {

/// Source: Megatron-LM, core v0.8 and later: core/distributed and core/optimizer with
/// overlap_grad_reduce and overlap_param_gather, gradient_accumulation_fusion,
/// core/tensor_parallel, core/transformer/moe; recomputation of layers whole or of attention alone;
/// core/fusions/fused_cross_entropy.py, as NeMo and Megatron-Bridge ask for
constexpr EngineRules megatron() {
  EngineRules rules;
  rules.name = "megatron";
  rules.summary =
      "Megatron-LM: tensor, context and pipeline parallelism, optimizer state whole or split";
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.joins_projections = rules.joins_gradients = true;  // core/transformer/attention.py
  rules.hides_exchange = false;
  rules.drops_by_op = true;
  rules.sends_copies = true;
  rules.splits_context = true;
  rules.splits_tensors = true;
  rules.keeps_attended = true;     // core/transformer/attention.py, checkpointed core attention
  rules.pairs_micro_steps = true;  // core/pipeline_parallel/combined_1f1b.py
  rules.predicts_further = true;   // core/transformer/multi_token_prediction.py
  rules.splits_tensors_of_experts = true;
  rules.weighs_activations = true;      // core v0.12, transformer/moe/experts.py, permuted_probs
  rules.routes_op_by_op = true;         // core v0.12, transformer/moe/router.py
  rules.has_unfused_attention = true;   // core/transformer/dot_product_attention.py
  rules.longest_fused_softmax = 16384;  // core/fusions/fused_softmax.py
  rules.fuses_scaled_rotary = false;    // core/models/common/embeddings/rope_utils.py
  rules.has_pipelines = true;           // core/pipeline_parallel/schedules.py
  rules.interleaves_chunks = true;
  rules.hand_cut = HandCut::bare_ends;  // core/transformer/pipeline_parallel_layer_layout.py
  rules.offloads_chunks = true;  // its fork kwai/Megatron-Kwai, core/pipeline_parallel/offload.py
  rules.overlaps_tensor_parallel = true;  // core/tensor_parallel/layers.py, backward of its linear
  rules.may_overlap_nothing = true;       // core/distributed, overlap_grad_reduce and the like off
  rules.has_fp8_products = true;
  rules.has_transformer_engine = true;  // core/extensions/transformer_engine.py
  rules.exchanges_in_pieces = true;     // core/model_parallel_config.py, tp_comm_overlap
  rules.least_zero = 0;
  rules.most_zero = 1;
  rules.sums_from_zero = true;
  rules.accumulates_in_products = true;
  rules.keeps_stand_ins = true;
  rules.gathers_in_forward = true;
  rules.chunks_loss = false;
  rules.loss = LossKind::fp32_whole;
  rules.may_compile_loss =
      true;  // core/extensions/transformer_engine.py, te_parallel_cross_entropy
  rules.reduce_dtype = DType::fp32;
  rules.workspaces = no_workspaces;
  return rules;
}

/// Source: Megatron-LM, core v0.14, core/distributed/fsdp/src/megatron_fsdp: shards of 16-bit
/// weights beside those in fp32, gathered by layer; gradients are copied into buckets, which are
/// reduced in every micro-step; what is of no layer stays gathered. Layers are those of `megatron`.
constexpr EngineRules megatron_fsdp() {
  EngineRules rules = megatron();
  rules.name = "megatron_fsdp";
  rules.summary = "Megatron-LM's own FSDP: layers as in megatron, weights split too";
  rules.has_pipelines = rules.offloads_chunks = rules.may_overlap_nothing = false;
  rules.pairs_micro_steps = rules.predicts_further = false;
  rules.copies_gradients = true;
  rules.keeps_root = true;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.keeps_narrow_shards = true;
  rules.least_zero = 3;
  rules.most_zero = 3;
  rules.accumulates_in_products = rules.keeps_stand_ins = false;
  rules.gathers_in_forward = false;
  return rules;
}

/// Source: Megatron-DeepSpeed (microsoft/Megatron-DeepSpeed, 1619965d), megatron/mpu/layers.py,
/// where no exchange overlaps and weight gradients are added up on their own, and
/// model/fused_softmax.py; DeepSpeed, runtime/pipe/engine.py, for transfers between stages and
/// gradients reduced behind the last micro-batch; runtime/engine.py, buffered_allreduce_fallback;
/// model/gpt_model.py, which has layers spread evenly (partition_method)
constexpr EngineRules megatron_deepspeed() {
  EngineRules rules;
  rules.name = "megatron_deepspeed";
  rules.summary =
      "Megatron-DeepSpeed without ZeRO: tensor and pipeline parallelism, nothing overlaps";
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.joins_projections = rules.joins_gradients = true;  // model/transformer.py, query_key_value
  rules.hides_exchange = false;
  rules.splits_tensors = true;
  rules.has_unfused_attention = true;
  rules.longest_fused_softmax = 2048;
  rules.has_pipelines = true;
  rules.splits_transfers = true;
  rules.reduces_at_end = true;
  rules.sums_from_zero = true;
  rules.least_zero = 0;
  rules.most_zero = 0;
  rules.chunks_loss = false;
  rules.loss = LossKind::fp32_whole;
  rules.has_loss_op_by_op = true;
  rules.workspaces = no_workspaces;
  return rules;
}

/// Source: DeepSpeed, runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py and
/// partitioned_param_coordinator.py, which gathers ahead; runtime/bf16_optimizer.py; models of
/// Hugging Face transformers, eager, whose loss widens all logits. stage3.py has one buffer for
/// gradients of all shards, grad_partitions_flat_buffer, which it never frees; runtime/zero/
/// partition_parameters.py, AllGatherCoalescedHandle, which puts each parameter together from what
/// was gathered, and mem_efficient_linear, without which autograd's own reference keeps a weight's
/// memory when a parameter lets go of it; ArcticTraining, whose checkpointed inputs of
/// layers may wait on the host. Where overlap_comm is on, as it is by default at stage 3,
/// partitioned_param_coordinator.py gathers on __allgather_stream, and stage3.py reduces on
/// reduce_and_partition_stream, where gradients are copied into a bucket, then in the order of
/// ranks and divided by their number (runtime/comm/coalesced_collectives.py,
/// reduce_scatter_coalesced). What a module reads of another one, as a model with Liger's loss does
/// of lm_head, runtime/zero/parameter_offload.py makes an external parameter of the module, the
/// model here, gathered ahead of its forward pass and let go behind its backward pass
constexpr EngineRules deepspeed() {
  EngineRules rules;
  rules.name = "deepspeed";
  rules.summary = "DeepSpeed: stages 1 to 3 of ZeRO, Ulysses, eager kernels";
  rules.copies_gathered = true;
  rules.copies_gradients = true;
  rules.further_copies = 2;
  rules.reductions_in_flight = 3;  // runtime/zero/stage3.py, max_param_reduce_events, and its own
  rules.pools_by_stream = true;
  rules.keeps_read_head = true;
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.has_eager_kernels = true;
  rules.has_unfused_attention = true;  // attn_implementation eager
  rules.splits_sequences = true;
  rules.least_zero = 1;
  rules.keeps_narrow_shards = true;
  rules.keeps_gradient_shards = true;
  rules.may_keep_references = true;
  rules.may_return_logits = true;    // Hugging Face transformers before 4.46, modeling_llama.py
  rules.pools_narrow_logits = true;  // as in accelerate()
  rules.may_compile_loss = rules.has_liger_loss = true;
  rules.updates_on_host = true;       // runtime/zero/offload_config.py
  rules.reduce_bucket = 500'000'000;  // runtime/zero/config.py, reduce_bucket_size
  rules.loss = LossKind::fp32_whole;
  rules.has_loss_op_by_op = true;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

/// Source: ModelLink and MindSpeed-LLM (Ascend), examples/*/pretrain_*_ptd.sh: Megatron-LM with
/// --no-gradient-accumulation-fusion, so that core/distributed adds gradients to sums in fp32;
/// MindSpeed, docs/features/mc2.md, whose kernels cut products and exchanges, with
/// --use-ascend-mc2, outside experts; MindSpeed-LLM, features_manager, NumLayerListFeature
constexpr EngineRules mindspeed() {
  EngineRules rules = megatron();
  rules.name = "mindspeed";
  rules.summary = "MindSpeed: Megatron-LM on Ascend, gradients added by passes of their own";
  rules.has_fp8_products = rules.has_transformer_engine = rules.may_compile_loss = false;
  rules.pairs_micro_steps = rules.has_unfused_attention = rules.may_overlap_nothing = false;
  rules.offloads_chunks = rules.predicts_further = rules.routes_op_by_op = false;
  rules.fuses_scaled_rotary = true;  // its kernel is given cosines and sines: npu_rotary_mul
  rules.hand_cut = HandCut::stages;  // --num-layer-list, without virtual stages
  rules.has_loss_op_by_op = true;
  rules.accumulates_in_products = rules.keeps_stand_ins = false;
  return rules;
}

/// Source: MindSpore, documentation of optimizer parallelism: weights at rest are split, gathered
/// behind the forward pass and gradients scattered; ccsrc/frontend/parallel/step_parallel.cc
/// gathers behind the cast to 16 bits, so that gradients are reduced in them too; MindFormers,
/// which accumulates by passes of their own, in sums that are whole as gradient_accumulation_shard
/// is off by default; a single micro-step has no sums; core/optim, FP32StateAdamWeightDecay, whose
/// base fuses its ops on hosts alone (MindSpore, nn/optim/adam.py). models/llama/llama_layer.py
/// and llama_transformer.py, whose defaults concatenate neither projections nor gate and up, for
/// what runs op by op, and norms in fp32. Exchanges overlap only where
/// parallel_speed_up.json says so: utils/ms_context.cc has enable_opt_shard_comm_opt,
/// enable_grad_comm_opt and matmul_grad_comm_overlap off
constexpr EngineRules mindformers() {
  EngineRules rules = mindspeed();
  rules.name = "mindformers";
  rules.summary = "MindFormers: MindSpore with optimizer, tensor and pipeline parallelism";
  rules.hand_cut = HandCut::chunks;                         // models/utils.py, LayerSetting, offset
  rules.joins_projections = rules.joins_gradients = false;  // qkv_concat
  rules.fuses_gate_up = rules.fuses_swiglu = false;         // ffn_concat; LlamaFeedForward
  rules.puts_heads_first = rules.widens_norms = rules.sums_branches = true;
  rules.splits_context = false;
  rules.sends_copies = false;
  rules.splits_tensors_of_experts = false;
  rules.weighs_activations = false;
  rules.overlaps_tensor_parallel = rules.exchanges_in_pieces = false;
  rules.overlaps_nothing = true;
  rules.keeps_only_sums = true;
  rules.updates_op_by_op = true;
  rules.reduce_dtype = DType::bf16;
  return rules;
}

/// Source: nanotron 0.5, optim/gradient_accumulator.py; optim/zero.py, which gathers after the
/// update; parallel/pipeline_parallel/engine.py and parallel/tensor_parallel; trainer.py, whose
/// DistributedDataParallel has buckets of its own and is there only where optimizer state is whole
/// (make_ddp), else sums in fp32 are reduced over all ranks behind the last micro-batch;
/// models/llama.py, GLUActivation, which is eager; models/base.py, which gives stages equal
/// products
constexpr EngineRules nanotron() {
  EngineRules rules = mindspeed();
  rules.name = "nanotron";
  rules.summary = "nanotron: tensor and pipeline parallelism, gradients summed in fp32";
  rules.exchanges_in_pieces = false;
  rules.splits_context = false;
  rules.sends_copies = false;
  rules.splits_tensors_of_experts = false;
  rules.drops_by_op = false;
  rules.pairs_micro_steps = false;
  rules.keeps_attended = false;
  rules.interleaves_chunks = false;
  rules.balances_stages = true;
  rules.hand_cut = HandCut::none;
  rules.gathers_in_forward = false;
  rules.reduces_behind_gathers = false;
  rules.fuses_swiglu = false;
  rules.stacks_heads = true;  // models/llama.py, CausalSelfAttention
  rules.joins_gradients = false;
  rules.adds_after_backward = true;
  rules.has_gradient_buckets = true;
  rules.all_reduces_gradients = true;
  rules.pools_narrow_logits = true;  // as in accelerate()
  rules.workspaces = nanotron_workspaces;
  return rules;
}

/// Source: InternEvo, solver/optimizer/hybrid_zero_optim.py with overlap_sync_grad, which reduces
/// gradients over all ranks behind the last backward pass and broadcasts updated weights after the
/// update; model/modeling_internlm.py, whose norms, rotary angles, activations and loss are fused,
/// norms in fp32; core/naive_amp.py, which widens logits; train/training_internlm.py, whose AdamW
/// is PyTorch's own, not fused below its version 2.1, and which scores the logits of every
/// micro-step
constexpr EngineRules internevo() {
  EngineRules rules;
  rules.name = "internevo";
  rules.summary = "InternEvo: optimizer state split over all ranks or some, tensor parallelism";
  rules.copies_gradients = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.joins_projections = true;  // model/modules/multi_head_attention.py
  rules.sums_branches = true;
  rules.splits_tensors = true;
  rules.overlaps_tensor_parallel = true;
  rules.replicates = true;
  rules.widens_norms = true;
  rules.drops_by_op = true;
  rules.least_zero = 0;
  rules.most_zero = 1;
  rules.all_reduces_gradients = true;
  rules.updates_all_at_once = true;
  rules.broadcasts_weights = true;
  rules.scores_logits = true;
  rules.chunks_loss = false;
  rules.loss = LossKind::fp32_whole;
  rules.workspaces = no_workspaces;
  return rules;
}

/// Source: InternEvo 0.2, train/training_internlm.py, wrap_FSDP_model, which wraps embedding and
/// head too, and attention and ffn apart, which we gather together;
/// solver/optimizer/fsdp_optimizer.py, which updates shards in fp32 beside those in 16 bits. Layers
/// are those of `internevo`.
constexpr EngineRules internevo_fsdp() {
  EngineRules rules = internevo();
  rules.name = "internevo_fsdp";
  rules.summary = "InternEvo on PyTorch's first FSDP: 16-bit shards beside those in fp32";
  rules.pools_by_stream = true;
  rules.reduces_behind_gathers = true;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.keeps_narrow_shards = true;
  rules.updates_all_at_once = true;
  rules.replicates = false;
  rules.all_reduces_gradients = false;
  rules.least_zero = 3;
  rules.most_zero = 3;
  return rules;
}

/// Source: ColossalAI, zero/low_level/README.md and low_level_optim.py: stage 2 reduces in every
/// backward pass, and weights are gathered after the update
constexpr EngineRules colossalai() {
  EngineRules rules = deepspeed();
  rules.name = "colossalai";
  rules.summary = "Colossal-AI: stages 1 and 2 of ZeRO";
  rules.splits_sequences = false;
  rules.keeps_narrow_shards = rules.copies_gathered = false;
  rules.pools_by_stream = false;
  rules.may_keep_references = rules.may_return_logits = rules.swaps_dense = false;
  rules.may_compile_loss = rules.has_liger_loss = false;
  rules.updates_on_host = false;
  rules.reduce_bucket = rules.reductions_in_flight = 0;
  rules.most_zero = 2;
  return rules;
}

/// Source: MaxText, configs/base.yml and layers/models.py: XLA gathers what each layer reads and
/// again in its backward pass, in 16 bits as gradients are reduced
constexpr EngineRules maxtext() {
  EngineRules rules = simple_fsdp();
  rules.name = "maxtext";
  rules.summary = "MaxText: FSDP by XLA";
  rules.splits_tensors = false;
  rules.sends_copies = false;
  rules.may_compile_loss = rules.widens_compiled_loss = false;
  rules.reduce_dtype = DType::bf16;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

}  // namespace xt

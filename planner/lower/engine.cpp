#include "planner/lower/engine.h"

#include <array>

namespace xt {
namespace {

constexpr EngineRules xt_run() {
  EngineRules rules;
  rules.name = "xt_run";
  rules.summary = "this project's executor: FSDP over all ranks, explicit backward kernels";
  rules.is_executed = true;
  rules.compute_dtype = DType::fp32;
  rules.reduces_through_scratch = true;
  rules.workspaces = xt_run_workspaces;
  return rules;
}

// Source: XTuner V1 (InternLM/xtuner, b934f4620), model/moe/moe.py, model/dense/dense.py and
// utils/activation_offload.py; PyTorch FSDP2 for the copies around collectives, and for gathers and
// reductions on one process group, whose NCCL communicator runs one kernel at a time.
constexpr EngineRules xtuner_v1() {
  EngineRules rules;
  rules.name = "xtuner_v1";
  rules.summary = "XTuner V1: FSDP2, experts inside the node, whole-layer recompute, chunk loss";
  rules.compute_dtype = DType::bf16;
  rules.shards_dense_over_world = false;
  rules.copies_gathered = true;
  rules.copies_gradients = true;
  rules.pools_by_stream = true;
  rules.reduces_behind_gathers = true;
  rules.prefetches_head = false;
  rules.keeps_last_dense_layer = false;
  rules.recomputes_last_sparse_layer = false;
  rules.keeps_sparse_head = true;
  rules.gathers_embedding_twice = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.swaps_after_layer = true;
  rules.hides_exchange = false;
  rules.reduces_replicas_again = true;
  rules.sends_copies = true;
  rules.agrs_ranks = 8;  // model/moe/moe.py: as many as groups of the router, of which it has 8
  rules.runs_in_lock_step = true;
  rules.has_fp8_products = true;
  rules.splits_sequences = true;
  rules.replicates = true;
  rules.loss = LossKind::fp32_chunks;
  rules.swaps_optimizer = true;
  rules.has_muon = true;
  rules.optimizer_copies = 2;
  rules.workspaces = xtuner_v1_workspaces;
  return rules;
}

// Source: torchtitan, parallelize_llama.py, December 2024: layers are wrapped one by one, the last
// is not resharded, and embedding, norm and head are what the root holds, which FSDP2 never
// reshards; gradients are reduced in fp32; the loss widens all logits. PyTorch,
// distributed/tensor/experimental/_attention.py, for context parallelism. Inputs of layers go to
// the host when they are saved: TRL and torchtune, OffloadActivations.
constexpr EngineRules torchtitan() {
  EngineRules rules;
  rules.name = "torchtitan";
  rules.summary =
      "torchtitan and others on FSDP2: whole layers, per-op recompute, eager or compiled";
  rules.copies_gathered = true;
  rules.copies_gradients = true;
  rules.pools_by_stream = true;
  rules.reduces_behind_gathers = true;
  rules.keeps_root = true;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.repeats_key_heads = true;
  rules.has_eager_kernels = true;
  rules.drops_by_op = true;
  rules.has_fp8_products = true;
  rules.sends_copies = true;
  rules.splits_context = true;
  rules.splits_tensors = true;
  rules.copies_shared_tokens = true;
  rules.replicates = true;
  rules.has_pipelines = true;  // torchtitan, parallelisms/pipeline_llama.py
  rules.interleaves_chunks = true;
  rules.sums_from_zero = true;
  rules.loss = LossKind::fp32_whole;
  rules.reduce_dtype = DType::fp32;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

// Source: torchtitan, experiments/simple_fsdp/simple_fsdp.py and experiments/graph_trainer: one
// graph casts and gathers each weight where it is read and again in the backward pass, without flat
// buffers and on the memory of one stream
constexpr EngineRules simple_fsdp() {
  EngineRules rules = torchtitan();
  rules.name = "simple_fsdp";
  rules.summary = "torchtitan's graph trainer: FSDP traced into one compiled graph";
  rules.copies_gathered = false;
  rules.copies_gradients = false;
  rules.pools_by_stream = false;
  rules.keeps_root = false;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.swaps_dense = false;
  rules.has_eager_kernels = false;
  rules.has_fp8_products = false;
  rules.splits_context = false;
  rules.has_pipelines = false;
  return rules;
}

// Source: PyTorch, torch/distributed/fsdp, flat parameters; MosaicML Composer, which wraps layers
// one by one, and updates op by op; the gradients of views of a flat parameter are concatenated;
// llm-foundry, whose fused cross-entropy writes gradients over logits.
constexpr EngineRules fsdp1() {
  EngineRules rules;
  rules.name = "fsdp1";
  rules.summary = "PyTorch's first FSDP, as in Composer: flat parameters, fused cross-entropy";
  rules.copies_gradients = true;
  rules.pools_by_stream = true;
  rules.reduces_behind_gathers = true;
  rules.keeps_root = true;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.swaps_dense = false;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.repeats_key_heads = true;
  rules.has_eager_kernels = true;
  rules.has_fp8_products = true;
  rules.replicates = true;
  rules.updates_op_by_op = true;
  rules.workspaces = no_workspaces;
  return rules;
}

// Source: PyTorch, torch/distributed/fsdp, _flat_param.py: without MixedPrecision flat parameters
// are gathered, and gradients reduced, in fp32; torch/csrc autocast_mode.cpp, which caches casts of
// leaves alone, so that views of a flat parameter are cast where products read them, here a unit at
// once; Hugging Face transformers, modeling_llama.py, whose loss widens all logits. Given up:
// residuals in fp32, which an embedding in fp32 begins
constexpr EngineRules fsdp1_autocast() {
  EngineRules rules = fsdp1();
  rules.name = "fsdp1_autocast";
  rules.summary =
      "PyTorch's first FSDP under autocast: weights gathered in fp32, whole loss in fp32";
  rules.gathers_wide = true;
  rules.has_fp8_products = false;
  rules.updates_op_by_op = false;
  rules.reduce_dtype = DType::fp32;
  rules.loss = LossKind::fp32_whole;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

// Source: Megatron-LM, core v0.8 and later: core/distributed and core/optimizer with
// overlap_grad_reduce and overlap_param_gather, gradient_accumulation_fusion,
// core/tensor_parallel, core/transformer/moe; recomputation of layers whole or of attention alone
constexpr EngineRules megatron() {
  EngineRules rules;
  rules.name = "megatron";
  rules.summary =
      "Megatron-LM: tensor, context and pipeline parallelism, optimizer state whole or split";
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.hides_exchange = false;
  rules.drops_by_op = true;
  rules.sends_copies = true;
  rules.splits_context = true;
  rules.splits_tensors = true;
  rules.keeps_attended = true;     // core/transformer/attention.py, checkpointed core attention
  rules.pairs_micro_steps = true;  // core/pipeline_parallel/combined_1f1b.py
  rules.splits_tensors_of_experts = true;
  rules.has_unfused_attention = true;   // core/transformer/dot_product_attention.py
  rules.longest_fused_softmax = 16384;  // core/fusions/fused_softmax.py
  rules.has_pipelines = true;           // core/pipeline_parallel/schedules.py
  rules.interleaves_chunks = true;
  rules.offloads_chunks = true;  // its fork kwai/Megatron-Kwai, core/pipeline_parallel/offload.py
  rules.overlaps_tensor_parallel = true;  // core/tensor_parallel/layers.py, backward of its linear
  rules.has_fp8_products = true;
  rules.has_transformer_engine = true;  // core/extensions/transformer_engine.py
  rules.least_zero = 0;
  rules.most_zero = 1;
  rules.sums_from_zero = true;
  rules.accumulates_in_products = true;
  rules.gathers_in_forward = true;
  rules.chunks_loss = false;
  rules.loss = LossKind::fp32_whole;
  rules.reduce_dtype = DType::fp32;
  rules.workspaces = no_workspaces;
  return rules;
}

// Source: Megatron-LM, core v0.14, core/distributed/fsdp/src/megatron_fsdp: shards of 16-bit
// weights beside those in fp32, gathered by layer; gradients are copied into buckets, which are
// reduced in every micro-step; what is of no layer stays gathered. Layers are those of `megatron`.
constexpr EngineRules megatron_fsdp() {
  EngineRules rules = megatron();
  rules.name = "megatron_fsdp";
  rules.summary = "Megatron-LM's own FSDP: layers as in megatron, weights split too";
  rules.has_pipelines = rules.offloads_chunks = false;
  rules.pairs_micro_steps = false;
  rules.copies_gradients = true;
  rules.keeps_root = true;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.keeps_narrow_shards = true;
  rules.least_zero = 3;
  rules.most_zero = 3;
  rules.accumulates_in_products = false;
  rules.gathers_in_forward = false;
  return rules;
}

// Source: Megatron-DeepSpeed (microsoft/Megatron-DeepSpeed, 1619965d), megatron/mpu/layers.py,
// where no exchange overlaps and weight gradients are added up on their own, and
// model/fused_softmax.py; DeepSpeed, runtime/pipe/engine.py, for transfers between stages and
// gradients reduced behind the last micro-batch; runtime/engine.py, buffered_allreduce_fallback
constexpr EngineRules megatron_deepspeed() {
  EngineRules rules;
  rules.name = "megatron_deepspeed";
  rules.summary =
      "Megatron-DeepSpeed without ZeRO: tensor and pipeline parallelism, nothing overlaps";
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
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
  rules.workspaces = no_workspaces;
  return rules;
}

// Source: DeepSpeed, runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py and
// partitioned_param_coordinator.py, which gathers ahead; runtime/bf16_optimizer.py; models of
// Hugging Face transformers, eager, whose loss widens all logits. stage3.py has one buffer for
// gradients of all shards, grad_partitions_flat_buffer, which it never frees
constexpr EngineRules deepspeed() {
  EngineRules rules;
  rules.name = "deepspeed";
  rules.summary = "DeepSpeed: stages 1 to 3 of ZeRO, Ulysses, eager kernels";
  rules.copies_gradients = true;
  rules.reduces_behind_gathers = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.has_eager_kernels = true;
  rules.has_unfused_attention = true;  // attn_implementation eager
  rules.splits_sequences = true;
  rules.least_zero = 1;
  rules.keeps_narrow_shards = true;
  rules.keeps_gradient_shards = true;
  rules.updates_on_host = true;  // runtime/zero/offload_config.py
  rules.loss = LossKind::fp32_whole;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

// Source: ModelLink and MindSpeed-LLM (Ascend), examples/*/pretrain_*_ptd.sh: Megatron-LM with
// --no-gradient-accumulation-fusion, so that core/distributed adds gradients to sums in fp32
constexpr EngineRules mindspeed() {
  EngineRules rules = megatron();
  rules.name = "mindspeed";
  rules.summary = "MindSpeed: Megatron-LM on Ascend, gradients added by passes of their own";
  rules.has_fp8_products = rules.has_transformer_engine = false;
  rules.pairs_micro_steps = rules.has_unfused_attention = false;
  rules.offloads_chunks = false;
  rules.accumulates_in_products = false;
  return rules;
}

// Source: MindSpore, documentation of optimizer parallelism: weights at rest are split, gathered
// behind the forward pass and gradients scattered; ccsrc/frontend/parallel/step_parallel.cc
// gathers behind the cast to 16 bits, so that gradients are reduced in them too; MindFormers,
// which accumulates by passes of their own
constexpr EngineRules mindformers() {
  EngineRules rules = mindspeed();
  rules.name = "mindformers";
  rules.summary = "MindFormers: MindSpore with optimizer, tensor and pipeline parallelism";
  rules.splits_context = false;
  rules.sends_copies = false;
  rules.splits_tensors_of_experts = false;
  rules.reduce_dtype = DType::bf16;
  return rules;
}

// Source: nanotron 0.5, optim/gradient_accumulator.py; optim/zero.py, which gathers after the
// update; parallel/pipeline_parallel/engine.py and parallel/tensor_parallel; trainer.py, whose
// DistributedDataParallel has buckets of its own; models/llama.py, GLUActivation, which is eager
constexpr EngineRules nanotron() {
  EngineRules rules = mindspeed();
  rules.name = "nanotron";
  rules.summary = "nanotron: tensor and pipeline parallelism, gradients summed in fp32";
  rules.splits_context = false;
  rules.sends_copies = false;
  rules.splits_tensors_of_experts = false;
  rules.drops_by_op = false;
  rules.pairs_micro_steps = false;
  rules.keeps_attended = false;
  rules.gathers_in_forward = false;
  rules.reduces_behind_gathers = false;
  rules.fuses_swiglu = false;
  rules.adds_after_backward = true;
  rules.has_gradient_buckets = true;
  rules.workspaces = nanotron_workspaces;
  return rules;
}

// Source: InternEvo, solver/optimizer/hybrid_zero_optim.py with overlap_sync_grad, which reduces
// gradients over all ranks behind the last backward pass and sends updated weights after the
// update, which we take for a gather; model/modeling_internlm.py, whose norms, rotary angles and
// activations are fused; core/naive_amp.py, which widens logits
constexpr EngineRules internevo() {
  EngineRules rules;
  rules.name = "internevo";
  rules.summary = "InternEvo: optimizer state split over all ranks or some, tensor parallelism";
  rules.copies_gradients = true;
  rules.recomputes_whole_layer = true;
  rules.swaps_dense = false;
  rules.hides_exchange = false;
  rules.fuses_gate_up = false;
  rules.splits_tensors = true;
  rules.overlaps_tensor_parallel = true;
  rules.replicates = true;
  rules.drops_by_op = true;
  rules.least_zero = 0;
  rules.most_zero = 1;
  rules.all_reduces_gradients = true;
  rules.chunks_loss = false;
  rules.loss = LossKind::fp32_whole;
  rules.workspaces = no_workspaces;
  return rules;
}

// Source: InternEvo 0.2, train/training_internlm.py, wrap_FSDP_model, which wraps embedding and
// head too, and attention and ffn apart, which we gather together;
// solver/optimizer/fsdp_optimizer.py, which updates shards in fp32 beside those in 16 bits. Layers
// are those of `internevo`.
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

// Source: ColossalAI, zero/low_level/README.md and low_level_optim.py: stage 2 reduces in every
// backward pass, and weights are gathered after the update
constexpr EngineRules colossalai() {
  EngineRules rules = deepspeed();
  rules.name = "colossalai";
  rules.summary = "Colossal-AI: stages 1 and 2 of ZeRO";
  rules.splits_sequences = false;
  rules.keeps_narrow_shards = false;
  rules.updates_on_host = false;
  rules.most_zero = 2;
  return rules;
}

// Source: MaxText, configs/base.yml and layers/models.py: XLA gathers what each layer reads and
// again in its backward pass, in 16 bits as gradients are reduced
constexpr EngineRules maxtext() {
  EngineRules rules = simple_fsdp();
  rules.name = "maxtext";
  rules.summary = "MaxText: FSDP by XLA";
  rules.splits_tensors = false;
  rules.sends_copies = false;
  rules.reduce_dtype = DType::bf16;
  return rules;
}

constexpr std::array<EngineRules, 17> rows = {
    xt_run(),    xtuner_v1(),      torchtitan(), simple_fsdp(),   maxtext(),
    fsdp1(),     fsdp1_autocast(), megatron(),   megatron_fsdp(), megatron_deepspeed(),
    deepspeed(), colossalai(),     mindspeed(),  mindformers(),   nanotron(),
    internevo(), internevo_fsdp()};

}  // namespace

std::span<const EngineRules> engines() { return rows; }

const EngineRules* engine_named(std::string_view name) {
  for (const EngineRules& rules : rows)
    if (rules.name == name) return &rules;
  return nullptr;
}

}  // namespace xt

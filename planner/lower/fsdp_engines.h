#pragma once

// Engines that split weights by layer: FSDP as this project's executor, XTuner V1, torchtitan and
// PyTorch's first FSDP have it. Private to lower/.

#include "planner/lower/engine.h"

namespace xt {

/// Rules of the engine of this name.
constexpr EngineRules xt_run() {
  EngineRules rules;
  rules.name = "xt_run";
  rules.summary = "this project's executor: FSDP over all ranks, explicit backward kernels";
  rules.is_executed = true;
  rules.compute_dtype = DType::fp32;
  rules.reduces_through_scratch = true;
  rules.drops_by_op = true;
  rules.runs_in_lock_step = true;
  rules.splits_sequences = true;
  rules.replicates = true;
  rules.has_muon = true;
  rules.may_overlap_nothing = true;
  rules.swaps_optimizer = true;
  rules.workspaces = xt_run_workspaces;
  return rules;
}

/// Source: XTuner V1 (InternLM/xtuner, b934f4620), model/moe/moe.py, model/dense/dense.py and
/// utils/activation_offload.py; PyTorch FSDP2 for the copies around collectives, and for gathers
/// and reductions on one process group, whose NCCL communicator runs one kernel at a time.
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
  rules.predicts_further = true;  // module/mtp/
  rules.splits_sequences = true;
  rules.replicates = true;
  rules.loss = LossKind::fp32_chunks;
  rules.swaps_optimizer = true;
  rules.has_muon = true;
  rules.optimizer_copies = 2;
  rules.workspaces = xtuner_v1_workspaces;
  return rules;
}

/// Source: torchtitan, parallelize_llama.py, December 2024: layers are wrapped one by one, the last
/// is not resharded, and embedding, norm and head are what the root holds, which FSDP2 never
/// reshards; gradients are reduced in fp32; the loss widens all logits; since pull request 1580,
/// August 2025, a checkpoint does not stop early, and layers with experts are compiled within it
/// part by part, others with it. PyTorch,
/// distributed/tensor/experimental/_attention.py, for context parallelism. Inputs of layers go to
/// the host when they are saved: TRL and torchtune, OffloadActivations.
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
  rules.recomputes_to_end = true;
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
  rules.splits_backward = true;  // PyTorch, distributed/pipelining, ScheduleInterleavedZeroBubble
  rules.hand_cut = HandCut::bare_ends;  // distributed/pipeline_parallel.py, names of modules
  rules.sums_from_zero = true;
  rules.loss = LossKind::fp32_whole;
  rules.has_loss_op_by_op = true;
  rules.may_compile_loss = true;    // components/loss.py
  rules.sums_loss_op_by_op = true;  // PyTorch, distributed/tensor/parallel/loss.py
  rules.reduce_dtype = DType::fp32;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

/// Source: Hugging Face accelerate, utils/dataclasses.py, set_mixed_precision, whose gradients are
/// reduced as they are computed; PyTorch, c10/cuda/CUDACachingAllocator.cpp, which gives a large
/// tensor a segment of its own unless segments are expandable, as torchtitan's run_train.sh asks
/// for and TRL does not; all else is of `torchtitan`
constexpr EngineRules accelerate() {
  EngineRules rules = torchtitan();
  rules.name = "accelerate";
  rules.summary = "Hugging Face transformers and accelerate on FSDP2";
  rules.has_pipelines = false;
  rules.recomputes_to_end = false;  // PyTorch, utils/checkpoint.py, by default
  rules.has_liger_loss = true;      // Hugging Face transformers, trainer.py, use_liger_kernel
  rules.pools_narrow_logits = true;
  rules.reduce_dtype = DType::bf16;
  return rules;
}

/// Source: TRL, trainer/sft_trainer.py, which logs entropy and accuracy of each micro-step's tokens
/// wherever Liger leaves it logits; all else is of `accelerate`
constexpr EngineRules trl() {
  EngineRules rules = accelerate();
  rules.name = "trl";
  rules.summary = "TRL's SFTTrainer on accelerate, with entropy and accuracy of tokens";
  rules.logs_tokens = true;
  return rules;
}

/// Source: MindSpeed (Ascend), mindspeed/fsdp, whose units are the modules that fsdp_plan names;
/// MindSpeed-LLM names embedding and head too; all else is of `torchtitan`
constexpr EngineRules mindspeed_fsdp() {
  EngineRules rules = torchtitan();
  rules.name = "mindspeed_fsdp";
  rules.summary = "MindSpeed-LLM on FSDP2: embedding and head are units of their own";
  rules.keeps_root = rules.recomputes_to_end = false;
  rules.has_pipelines = rules.may_compile_loss = false;
  return rules;
}

/// Source: torchtitan, experiments/simple_fsdp/simple_fsdp.py and experiments/graph_trainer: one
/// graph casts and gathers each weight where it is read and again in the backward pass, without
/// flat buffers and on the memory of one stream; torchtitan's pull request 3646, for what is alive
/// of a loss that inductor compiles too: logits and their gradient in fp32
constexpr EngineRules simple_fsdp() {
  EngineRules rules = torchtitan();
  rules.name = "simple_fsdp";
  rules.summary = "torchtitan's graph trainer: FSDP traced into one compiled graph";
  rules.copies_gathered = false;
  rules.copies_gradients = false;
  rules.pools_by_stream = false;
  rules.keeps_root = rules.recomputes_to_end = false;
  rules.keeps_last_dense_layer = false;
  rules.keeps_last_sparse_layer = false;
  rules.swaps_dense = false;
  rules.has_eager_kernels = false;
  rules.has_fp8_products = false;
  rules.splits_context = false;
  rules.has_pipelines = false;
  rules.sums_loss_op_by_op = rules.has_loss_op_by_op = false;
  rules.widens_compiled_loss = true;
  rules.workspaces = decomposed_workspaces;
  return rules;
}

/// Source: PyTorch, torch/distributed/fsdp, flat parameters; MosaicML Composer, which wraps layers
/// one by one, and updates op by op; the gradients of views of a flat parameter are concatenated;
/// llm-foundry, whose fused cross-entropy writes gradients over logits.
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

/// Source: MosaicML Composer, trainer/trainer.py, which logs the model's metrics of every
/// micro-step; llm-foundry, models/mpt/modeling_mpt.py, whose are cross-entropy and perplexity, of
/// logits that are whole, and scripts/train/benchmarking/sweep.sh, which asks for PyTorch 2.0: its
/// torch/utils/checkpoint.py runs all of a layer again, as stopping where nothing more is read came
/// with 2.1 (pull request 90105 of March 2023); all else is of `fsdp1`
constexpr EngineRules composer() {
  EngineRules rules = fsdp1();
  rules.name = "composer";
  rules.summary = "LLM-Foundry and Composer on PyTorch 2.0's FSDP, with their metrics";
  rules.recomputes_whole_layer = true;
  rules.joins_projections = rules.joins_gradients = true;  // models/layers/attention.py, Wqkv
  rules.chunks_loss = false;
  rules.logged_metrics = 2;
  return rules;
}

/// Source: PyTorch, torch/distributed/fsdp, _flat_param.py: without MixedPrecision flat parameters
/// are gathered, and gradients reduced, in fp32; torch/csrc autocast_mode.cpp, which caches casts
/// of leaves alone, so that views of a flat parameter are cast where products read them, here a
/// unit at once, and leaves residuals in fp32, which an embedding in fp32 begins; Hugging Face
/// transformers, modeling_llama.py, whose loss widens all logits
constexpr EngineRules fsdp1_autocast() {
  EngineRules rules = fsdp1();
  rules.name = "fsdp1_autocast";
  rules.summary =
      "PyTorch's first FSDP under autocast: weights gathered in fp32, whole loss in fp32";
  rules.gathers_wide = true;
  rules.widens_residuals = true;
  rules.holds_outputs = true;
  rules.has_fp8_products = false;
  rules.updates_op_by_op = false;
  rules.reduce_dtype = DType::fp32;
  rules.loss = LossKind::fp32_whole;
  rules.has_loss_op_by_op = true;
  rules.workspaces = torchtitan_workspaces;
  return rules;
}

}  // namespace xt

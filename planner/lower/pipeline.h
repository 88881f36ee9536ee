#pragma once

// From what is computed to the pipeline that computes it: stages, their chunks, and the order in
// which micro-batches go through them.

#include "costmodel/ir/op_graph.h"
#include "costmodel/ir/pipeline.h"
#include "planner/lower/engine.h"
#include "planner/strategy.h"

namespace xt {

/// Chunk and micro-batch by stage and position under 1F1B, interleaved where stages have several
/// chunks: as many forward passes as it takes until the first gradient can come back, then one
/// forward and one backward pass in turn, then the remaining backward passes. `in_pairs`, those in
/// turn run at once, behind one forward pass more, so that neither needs what the other makes.
///
/// Assumes: with several chunks, micro_batches is a multiple of stages; one chunk has no pairs
/// Source:  Narayanan et al. 2021, arXiv 2104.04473, section 2.2; Megatron-LM,
///          core/pipeline_parallel/schedules.py, get_pp_rank_microbatches and get_model_chunk_id;
///          combined_1f1b.py, combined_1f1b_schedule_for_interleaved_pipelining
std::vector<std::vector<ChunkRun>> one_forward_one_backward(std::int32_t stages,
                                                            std::int32_t chunks,
                                                            std::int32_t micro_batches,
                                                            bool in_pairs = false);

/// The same where backward passes come in two halves: ZB1P. Gradients of inputs come back as early
/// as they can, so that a stage warms up with fewer forward passes; those of weights are found as
/// many passes later as there are stages before, where it would wait else.
///
/// Assumes: several chunks, and micro_batches is a multiple of stages
/// Source:  Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241; PyTorch,
///          distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble
std::vector<std::vector<ChunkRun>> zero_bubble(std::int32_t stages, std::int32_t chunks,
                                               std::int32_t micro_batches);

/// Columns of what a rank sends to its like of the next stage.
std::int64_t transfer_columns(const OpGraph& graph, const Strategy& strategy,
                              const EngineRules& rules);

/// Whether embedding and head count as a layer each, because then layers spread evenly over
/// `chunks`, and else they would not.
///
/// Source:  Megatron-LM, --account-for-embedding-in-pipeline-split and the same for the loss
bool counts_ends(std::int64_t layers, std::int64_t chunks);

/// The pipeline of one training step.
///
/// Layers are those that Strategy::pipeline_layers says, where it does. Else they are spread evenly
/// over all chunks of all stages, see counts_ends(); where they do not divide, chunks with one more
/// lie evenly between the others, the first of the model among them. An engine that balances stages
/// has those of balanced_stages().
/// Chunk c of stage i is the (c·stages + i)-th part of the model. The embedding is with the first
/// part, final norm, head and loss with the last. Recomputed layers are spread over the parts in
/// proportion.
///
/// Assumes: as lower(), and an engine with pipelines, another stage of ZeRO than 2, no swapped
///          layers, one replica, and at least a layer per stage, but where pipeline_layers says
///          that the first or the last has none
/// Source:  Megatron-LM, core/transformer/transformer_block.py and --recompute-num-layers, which
///          counts by stage; core/transformer/pipeline_parallel_layer_layout.py, whose layouts
///          name embedding, layers and loss of each part in the model's order
PipelineSchedule lower_pipeline(const OpGraph& graph, const Strategy& strategy);

}  // namespace xt

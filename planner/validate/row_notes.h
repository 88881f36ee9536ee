#pragma once

// What a row tells beside its fields.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/hardware/profile.h"
#include "planner/validate/published_row.h"

namespace xt {

/// Ranks that share optimizer state, as notes of InternEvo's rows say; 0: all.
std::int64_t state_ranks(const PublishedRow& row);

/// By which part of the steady rate a row's, which is a mean from the first step on, lies below it;
/// 0 where its notes say nothing of the kind.
double below_steady(const PublishedRow& row);

/// Whether a row's memory is that of the first stage of its pipeline: nanotron's rank 0 writes the
/// tables of a benchmark, whatever rank logs.
///
/// Source: nanotron 0.5, helpers.py, log_throughput
bool is_of_first_stage(const PublishedRow& row);

/// Whether a row's memory is that of the last stage of its pipeline.
bool is_of_last_stage(const PublishedRow& row);

/// Whether no exchange of a row overlaps anything.
bool overlaps_nothing(const PublishedRow& row);

/// Whether products of a row keep what was gathered for them: FlagPerf turns DeepSpeed's
/// memory-efficient ones off.
///
/// Source: FlagOpen/FlagPerf, training/benchmarks/llama2_7b/deepspeed/run_pretraining.py
bool keeps_references(const PublishedRow& row);

/// Whether a row's model returns logits in fp32 beside those of its loss: models of Hugging Face
/// transformers and those written like them did so until October 2024.
///
/// Source: Hugging Face transformers 4.45 and 4.46, models/llama/modeling_llama.py and
/// loss/loss_utils.py; modeling_chatglm.py and modeling_baichuan.py of these models' repositories
bool returns_logits(const PublishedRow& row);

/// Whether a row's loss is compiled: torchtitan's trainer compiles it where it compiles layers
/// since April 2025, as what is written since then ran, and the graph trainer where it compiles the
/// whole graph; or whether Transformer Engine or Liger has it as a kernel.
///
/// Source: torchtitan, pull requests 755 (December 2024), which stopped compiling the loss, and
/// 1033 (1 April 2025), components/loss.py, which began again
bool compiles_loss(const PublishedRow& row);

/// Whether a row is of torchtitan before its checkpoints ran to their end, or of others that take
/// PyTorch's default.
///
/// Source: torchtitan, pull request 1580, August 2025; PyTorch, utils/checkpoint.py
bool stops_recompute_early(const PublishedRow& row);

/// What a row's notes say of references, of its loss and of the elements of the buffer in which
/// gradients are put together, as keys of a run file.
std::vector<std::pair<std::string, std::string>> flags_of_notes(const PublishedRow& row);

/// Whether nobody printed which kind of memory a row's is: it has none, or one that was assumed.
///
/// Source:  DLRover, atorch/examples/llama2/example_utils.py, report_memory, which prints peaks of
///          both kinds, and a README that does not say which one its table has
bool has_open_memory(const PublishedRow& row);

/// Whether memory of unknown kind may be what the device counts.
bool may_be_of_device(const PublishedRow& row);

/// The least bytes that a row's peak of memory may stand for: where notes say that its unit is not
/// stated, the printed GB, taken as GiB, may be decimal.
///
/// Assumes: the row has a peak of memory
Bytes least_memory(const PublishedRow& row);

/// Whether a row has Liger's kernels: of the loss, and of norms, rotary angles and SwiGLU.
///
/// Source:  Liger-Kernel, transformers/monkey_patch.py
bool uses_liger(const PublishedRow& row);

/// Whether a row's `cp` stands for Ulysses.
///
/// Source:  XTuner (InternLM/xtuner, v0.1), parallel/sequence
bool is_ulysses(const PublishedRow& row);

/// Whether a row's notes say that its logits are whole.
bool has_whole_logits(const PublishedRow& row);

/// Whether a row of FSDP2 runs attention of Transformer Engine, which is the machine's: routed
/// models of NeMo AutoModel do, unless their notes say FlexAttention.
///
/// Source:  NeMo AutoModel, examples/benchmark/configs/*_te_deepep.yaml
bool attends_by_transformer_engine(const PublishedRow& row);

/// Devices of a row in one of the profile's: 1, or the dies of a package where the row counts dies.
std::int64_t dies_of_row(const PublishedRow& row, const Profile& profile);

}  // namespace xt

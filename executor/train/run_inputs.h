#pragma once

// What a run reads before its ranks meet: plan, schedule, text, weights. Every rank reads the same
// and comes to the same verdict, so that whatever is wrong is said once, and nothing is written.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/io/json.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/ir/schedule.h"
#include "costmodel/packing/deal.h"
#include "executor/checkpoints/checkpoint_file.h"
#include "executor/data/documents.h"
#include "executor/data/packs.h"
#include "executor/train/resume.h"
#include "executor/weights/safetensors.h"

namespace xt {

/// Checkpoints that a run writes and starts from.
struct CheckpointChoices {
  std::filesystem::path folder;
  std::int64_t every = 0;  ///< steps between two of them; 0: none is written
  std::int64_t keep = 2;   ///< the latest so many stay
  bool resumes = false;    ///< goes on from the latest that is whole
};

/// What the user asks of a run.
struct RunRequest {
  std::filesystem::path directory;
  std::vector<std::filesystem::path> data;
  std::int64_t steps = 0;
  std::set<std::int64_t> record_steps;
  std::optional<std::filesystem::path> weights;       ///< to start from; else drawn from the seed
  std::optional<std::filesystem::path> save_weights;  ///< folder for the trained ones
  std::optional<DType> save_dtype;                    ///< theirs; else the plan's compute type
  CheckpointChoices checkpoints;
  std::int64_t stall_timeout_s = 0;  ///< after which a run that does not move ends; 0: never
  Overwrite overwrite = Overwrite::refuse;
};

/// The steps that `text` names: `3`, `2,5` or `3-6,9`.
///
/// Throws: InputError when it names none, or steps outside 1 to `steps`
std::set<std::int64_t> parse_steps(std::string_view text, std::int64_t steps);

/// A plan directory as the executor needs it.
struct ExecutablePlan {
  PlanFile plan;
  Schedule schedule;
};

/// The plan in `directory`, to be run by `ranks` ranks.
///
/// Throws: InputError when it is missing, damaged, for other ranks, or not for xt-run to execute
ExecutablePlan load_plan(const std::filesystem::path& directory, std::int64_t ranks);

/// To whom `plan` deals its packs.
DealOptions deal_of(const PlanFile& plan);

/// What `load_inputs` read.
struct RunInputs {
  ExecutablePlan plan;
  std::shared_ptr<const Documents> documents;
  std::shared_ptr<const Packs> packs;  ///< of these
  std::optional<Weights> weights;
  Json model_config;  ///< config.json of the model, where weights are saved
  DataIdentity data;
  FoundCheckpoints checkpoints;  ///< where the run resumes; there is a whole one
};

/// Reads everything that `request` names and checks that its output may be written.
///
/// Throws: InputError with what is wrong
RunInputs load_inputs(const RunRequest& request, std::int64_t ranks);

/// Where rank `rank` writes its recorded steps.
std::filesystem::path recording_path(const std::filesystem::path& directory, std::int64_t rank);

}  // namespace xt

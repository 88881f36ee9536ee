#pragma once

// The parameters of a model as a rank holds them: stretches of published tensors inside its shards
// of flat buffers. Values depend on a tensor's name and the seed alone, never on the layout.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/ir/schedule.h"
#include "executor/runtime/step_state.h"
#include "executor/weights/safetensors.h"
#include "executor/weights/weights_folder.h"

namespace xt {

/// A stretch of a published tensor in a rank's shard of a flat.
struct Stretch {
  std::string name;                 ///< of the tensor, expert index filled in
  std::vector<std::int64_t> shape;  ///< of the tensor
  const Placement* placement = nullptr;
  std::int64_t first = 0;  ///< element of the tensor
  std::int64_t elements = 0;
  std::int32_t flat = 0;
  std::int64_t shard_offset = 0;  ///< element of the shard
};

/// Everything that `rank` holds, in the order of the schedule's placements.
///
/// Assumes: `schedule` outlives the result
std::vector<Stretch> stretches_of(const Schedule& schedule, std::int32_t rank);

/// Whether `rank` is the first of the ranks that hold its part of `flat`.
bool is_first_holder(const Schedule& schedule, const Flat& flat, std::int32_t rank);

/// Draws the parameters of `rank`: norms are ones, other vectors zeros, matrices normal with
/// deviation 0.02, as Hugging Face initialises models.
void initialise_parameters(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                           std::int64_t seed);

/// Reads the parameters of `rank` from published weights.
///
/// Throws: InputError when a tensor is missing or of another shape
void load_parameters(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                     const Weights& weights);

/// Throws: InputError unless `weights` has every tensor of the model in its shape
void check_weights(const Schedule& schedule, const Weights& weights);

/// The tensors of the model as they are published, of all ranks, sorted by name; those of whose
/// placements `is_wanted` says so.
std::vector<TensorSpec> published_tensors(
    const Schedule& schedule, DType dtype,
    const std::function<bool(const Placement&)>& is_wanted = [](const Placement&) { return true; });

/// Writes what `rank` holds of them into `folder`; of ranks that hold the same, the first does.
///
/// Throws: std::system_error
void save_parameters(const Schedule& schedule, const BufferMemory& memory, std::int32_t rank,
                     WeightsFolder& folder);

}  // namespace xt

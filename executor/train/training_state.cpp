#include "executor/train/training_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/schedule_lines.h"
#include "executor/checkpoints/element_digest.h"
#include "executor/weights/elements.h"

namespace xt {
namespace {

constexpr std::array<BufferId Flat::*, state_names.size()> buffers = {
    &Flat::parameter, &Flat::exp_avg, &Flat::exp_avg_sq};

/// Whether the ranks keep state `state` of `flat`.
bool is_kept(const Schedule& schedule, const Flat& flat, std::size_t state) {
  const BufferId id = flat.*buffers[state];
  if (id == no_buffer || schedule.buffer(id).elements({}) == 0) return false;
  const Buffer& buffer = schedule.buffer(id);
  XT_CHECK(buffer.dtype == DType::fp32 && buffer.kind == BufferKind::resident);
  XT_CHECK(buffer.elements({}) == schedule.buffer(flat.parameter).elements({}), flat.name);
  return true;
}

const Flat& flat_of(const Schedule& schedule, const Stretch& stretch) {
  return schedule.flats[static_cast<std::size_t>(stretch.flat)];
}

std::vector<TensorSpec> tensors_of(const Schedule& schedule, std::size_t state) {
  return published_tensors(schedule, DType::fp32, [&](const Placement& placement) {
    return is_kept(schedule, schedule.flats[static_cast<std::size_t>(placement.flat)], state);
  });
}

at::Tensor shard(const BufferMemory& memory, const Flat& flat, std::size_t state) {
  return memory.tensor(flat.*buffers[state]).view(-1);
}

std::span<float> span_of(const at::Tensor& elements) {
  return {elements.mutable_data_ptr<float>(), static_cast<std::size_t>(elements.numel())};
}

std::span<float> part(std::span<float> shard, const Stretch& stretch) {
  return shard.subspan(static_cast<std::size_t>(stretch.shard_offset),
                       static_cast<std::size_t>(stretch.elements));
}

}  // namespace

std::vector<std::size_t> kept_states(const Schedule& schedule) {
  std::vector<std::size_t> kept;
  for (std::size_t state = 0; state < state_names.size(); ++state)
    if (!tensors_of(schedule, state).empty()) kept.push_back(state);
  return kept;
}

StateFiles open_state(const std::filesystem::path& checkpoint, const CheckpointFile& file) {
  StateFiles files;
  for (const auto& [name, digest] : file.state_digests.entries) {
    const auto* const found = std::ranges::find(state_names, name);
    if (found == state_names.end())
      throw InputError({error_in((checkpoint / checkpoint_file_name).string(),
                                 fmt::format("names `{}`, which is not known here", name))});
    files.emplace(static_cast<std::size_t>(found - state_names.begin()),
                  Weights(checkpoint / name));
  }
  return files;
}

StateDigests digests_of(const StateFiles& files) {
  StateDigests digests{};
  for (const auto& [state, weights] : files)
    for (const std::string& name : weights.names()) {
      const StoredTensor& stored = *weights.find(name);
      std::vector<float> elements(static_cast<std::size_t>(stored.elements()));
      decode(stored.bytes, stored.dtype, 0, elements);
      digests[state] += element_digest(name, 0, elements);
    }
  return digests;
}

std::string difference(const CheckpointFile& file, const StateDigests& digests) {
  for (std::size_t i = 0; i < state_names.size(); ++i) {
    const std::string* noted = file.state_digests.find(state_names[i]);
    if (noted != nullptr && *noted != digest_text(digests[i]))
      return fmt::format("elements of {} do not have the digest that they should", state_names[i]);
  }
  return {};
}

void check_state(const Schedule& schedule, const StateFiles& files,
                 const std::filesystem::path& checkpoint) {
  const auto refuse = [&](std::size_t state, std::size_t n, std::size_t needed) {
    throw InputError({error_in((checkpoint / state_names[state]).string(),
                               fmt::format("holds {} tensors, this run keeps {}", n, needed),
                               "resume with the model and the optimizer of the checkpoint")});
  };
  for (std::size_t state = 0; state < state_names.size(); ++state) {
    const std::vector<TensorSpec> needed = tensors_of(schedule, state);
    const auto found = files.find(state);
    const std::size_t n = found == files.end() ? 0 : found->second.names().size();
    if (n != needed.size()) refuse(state, n, needed.size());
    for (const TensorSpec& tensor : needed) (void)found->second.at(tensor.name, tensor.shape);
  }
}

StateDigests load_state(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                        const StateFiles& files) {
  StateDigests digests{};
  for (const Stretch& stretch : stretches_of(schedule, rank))
    for (const auto& [state, weights] : files) {
      const Flat& flat = flat_of(schedule, stretch);
      if (!is_kept(schedule, flat, state)) continue;
      const at::Tensor elements =
          shard(memory, flat, state).narrow(0, stretch.shard_offset, stretch.elements);
      const at::Tensor host = elements.cpu();
      const std::span<float> to = span_of(host);
      const StoredTensor& stored = *weights.find(stretch.name);
      decode(stored.bytes, stored.dtype, stretch.first, to);
      if (!elements.device().is_cpu()) elements.copy_(host);
      if (is_first_holder(schedule, flat, rank))
        digests[state] += element_digest(stretch.name, stretch.first, to);
    }
  return digests;
}

StateSnapshot::StateSnapshot(const Schedule& schedule, std::int32_t rank)
    : schedule_(schedule),
      rank_(rank),
      states_(kept_states(schedule)),
      stretches_(stretches_of(schedule, rank)) {}

bool StateSnapshot::is_written(const Flat& flat, std::size_t state) const {
  return is_kept(schedule_, flat, state) && is_first_holder(schedule_, flat, rank_);
}

void StateSnapshot::take(const BufferMemory& memory) {
  for (const std::size_t state : states_) {
    shards_[state].resize(schedule_.flats.size());
    for (std::size_t i = 0; i < schedule_.flats.size(); ++i) {
      if (!is_written(schedule_.flats[i], state)) continue;
      const at::Tensor host = shard(memory, schedule_.flats[i], state).cpu();
      const std::span<const float> from = span_of(host);
      shards_[state][i].assign(from.begin(), from.end());
    }
  }
}

std::unique_ptr<WeightsFolder> StateSnapshot::folder(const std::filesystem::path& checkpoint,
                                                     std::size_t state) const {
  return std::make_unique<WeightsFolder>(checkpoint / state_names[state],
                                         tensors_of(schedule_, state));
}

void StateSnapshot::begin(const std::filesystem::path& checkpoint) {
  begun_.clear();
  for (const std::size_t state : states_) {
    begun_.push_back(folder(checkpoint, state));
    begun_.back()->begin();
  }
}

StateDigests StateSnapshot::write(const std::filesystem::path& checkpoint) {
  StateDigests digests{};
  for (const std::size_t state : states_) {
    const std::unique_ptr<WeightsFolder> to = folder(checkpoint, state);
    for (const Stretch& stretch : stretches_) {
      if (!is_written(flat_of(schedule_, stretch), state)) continue;
      const std::span<const float> elements =
          part(shards_[state][static_cast<std::size_t>(stretch.flat)], stretch);
      to->write(stretch.name, stretch.first, elements);
      digests[state] += element_digest(stretch.name, stretch.first, elements);
    }
    to->flush();
  }
  return digests;
}

void StateSnapshot::publish() {
  for (const std::unique_ptr<WeightsFolder>& one : begun_) one->publish();
  begun_.clear();
}

}  // namespace xt

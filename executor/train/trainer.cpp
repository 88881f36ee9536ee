#include "executor/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

template <typename T>
void fill(const BufferMemory& memory, BufferId id, const std::vector<T>& values) {
  const at::Tensor tensor = memory.tensor(id);
  XT_CHECK(tensor.numel() >= std::ssize(values), tensor.numel(), values.size());
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<T>());
}

float scalar(const BufferMemory& memory, BufferId id) {
  return *memory.tensor(id).const_data_ptr<float>();
}

}  // namespace

Communicators make_communicators(const Schedule& schedule, GlooNetwork& network, int rank) {
  Communicators communicators;
  for (const auto& [lane, group] : traffic_groups(schedule)) {
    const GroupShape& shape = schedule.group(group);
    const std::string name = fmt::format("{}/{}", lane_names[static_cast<std::size_t>(lane)],
                                         group_names[static_cast<std::size_t>(group)]);
    communicators[static_cast<std::size_t>(lane)][static_cast<std::size_t>(group)] =
        network.group(name, group_members(rank, shape.size, shape.stride));
  }
  return communicators;
}

Trainer::Trainer(const Schedule& schedule, const KernelTable& kernels, Communicators communicators,
                 std::int32_t rank, PackSource packs, const PlanOptimizer& optimizer)
    : schedule_(schedule),
      state_(schedule, kernels, std::move(communicators)),
      rank_(rank),
      packs_(std::move(packs)),
      optimizer_(optimizer) {
  for (std::size_t i = 0; i < schedule.sections.size(); ++i)
    if (state_.plan.takes_pack[i]) n_micro_steps_ += schedule.sections[i].repeat;
}

void Trainer::take_packs() {
  of_step_.clear();
  std::int64_t n_valid = 0;
  for (std::int64_t i = 0; i < n_micro_steps_; ++i) {
    const std::int64_t index = (step_ * n_micro_steps_ + i) * schedule_.ranks + rank_;
    of_step_.push_back(packs_(index));
    n_valid += n_valid_labels(of_step_.back());
  }
  const std::vector<float> count{static_cast<float>(n_valid)};
  fill(state_.memory, schedule_.batch.valid_tokens, count);
}

PackFacts Trainer::load(std::int32_t index) {
  const Pack& pack = of_step_[static_cast<std::size_t>(index)];
  const BatchBuffers& batch = schedule_.batch;
  fill(state_.memory, batch.tokens, pack.tokens);
  fill(state_.memory, batch.labels, pack.labels);
  fill(state_.memory, batch.positions, positions(pack));
  std::vector<std::int32_t> boundaries = pack.boundaries;
  boundaries.resize(pack.tokens.size() + 1, static_cast<std::int32_t>(pack.tokens.size()));
  fill(state_.memory, batch.boundaries, boundaries);
  return {sum_squared_lengths(pack), longest_sample(pack)};
}

StepOutcome Trainer::step() {
  take_packs();
  ++step_;
  StepRequest request;
  request.rank = rank_;
  request.constants = {optimizer_.learning_rate,
                       optimizer_.beta1,
                       optimizer_.beta2,
                       optimizer_.adam_eps,
                       optimizer_.weight_decay,
                       optimizer_.max_grad_norm,
                       step_};
  request.load_pack = [this](std::int32_t index) { return load(index); };
  StepOutcome outcome;
  outcome.result = execute(state_, request);
  outcome.step = step_;
  outcome.loss = scalar(state_.memory, schedule_.batch.loss);
  outcome.grad_norm = std::sqrt(scalar(state_.memory, schedule_.batch.grad_norm));
  return outcome;
}

}  // namespace xt

#include "executor/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "costmodel/diagnostics/check.h"
#include "executor/train/learning_rate.h"

namespace xt {
namespace {

/// Writes `values` into part `i` of buffer `id`, whose parts are as many elements as there are.
template <typename T>
void fill(const BufferMemory& memory, BufferId id, std::int64_t i, std::span<const T> values) {
  const at::Tensor tensor = memory.tensor(id);
  const std::int64_t n = std::ssize(values), first = i * n;
  XT_CHECK(tensor.numel() >= first + n, tensor.numel(), first, n);
  std::vector<T> from(values.begin(), values.end());
  tensor.view(-1).narrow(0, first, n).copy_(at::from_blob(from.data(), {n}, tensor.dtype()));
}

float scalar(const BufferMemory& memory, BufferId id) { return memory.tensor(id).item<float>(); }

}  // namespace

Communicators make_communicators(const Schedule& schedule, Network& network, int rank) {
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

BatchLayout::BatchLayout(const Schedule& schedule)
    : sequence_ranks(schedule.group(Group::sequence).size) {
  for (const Symbol& symbol : schedule.symbols)
    micro_batches = std::max<std::int64_t>(micro_batches, symbol.micro_batch + 1);
  const std::int64_t tokens = schedule.buffer(schedule.batch.tokens).elements({});
  rank_tokens = tokens / micro_batches;
  pack_length = rank_tokens * sequence_ranks;
}

Trainer::Trainer(const Schedule& schedule, const KernelTable& kernels, Communicators communicators,
                 std::int32_t rank, PackSource packs, const PlanOptimizer& optimizer,
                 std::unique_ptr<Device> device)
    : schedule_(schedule),
      state_(schedule, kernels, std::move(communicators), std::move(device)),
      rank_(rank),
      packs_(std::move(packs)),
      optimizer_(optimizer),
      layout_(schedule) {
  for (std::size_t i = 0; i < schedule.sections.size(); ++i)
    if (state_.plan.takes_pack[i]) n_micro_steps_ += schedule.sections[i].repeat;
}

// Of each pack, where this rank's tokens begin.
std::int64_t Trainer::first_token() const {
  return index_in_group(schedule_.group(Group::sequence), rank_) * layout_.rank_tokens;
}

// In one step.
std::int64_t Trainer::packs_of_all_ranks() const {
  return n_micro_steps_ * layout_.micro_batches * schedule_.ranks / layout_.sequence_ranks;
}

void Trainer::take_packs() {
  of_step_.clear();
  const std::int64_t n_packs = n_micro_steps_ * layout_.micro_batches;
  const std::int64_t groups = schedule_.ranks / layout_.sequence_ranks;
  std::int64_t n_valid = 0;
  for (std::int64_t i = 0; i < n_packs; ++i) {
    const std::int64_t index = position_.next_pack + i * groups + rank_ / layout_.sequence_ranks;
    of_step_.push_back(packs_(index));
    n_valid += n_valid_labels(std::span(of_step_.back().labels)
                                  .subspan(static_cast<std::size_t>(first_token()),
                                           static_cast<std::size_t>(layout_.rank_tokens)));
  }
  const std::array<float, 1> count{static_cast<float>(n_valid)};
  fill<float>(state_.memory, schedule_.batch.valid_tokens, 0, count);
  position_.next_pack += n_packs * groups;
}

std::vector<PackFacts> Trainer::load(std::int32_t index) {
  std::vector<PackFacts> facts;
  for (std::int64_t m = 0; m < layout_.micro_batches; ++m)
    facts.push_back(
        load_one(of_step_[static_cast<std::size_t>(index * layout_.micro_batches + m)], m));
  return facts;
}

// Tokens are this rank's, boundaries those of the whole pack.
PackFacts Trainer::load_one(const Pack& pack, std::int64_t micro_batch) {
  const BatchBuffers& batch = schedule_.batch;
  const auto of_rank = [&](const std::vector<std::int64_t>& of_pack) {
    XT_CHECK(std::ssize(of_pack) == layout_.pack_length, of_pack.size(), layout_.pack_length);
    return std::span(of_pack).subspan(static_cast<std::size_t>(first_token()),
                                      static_cast<std::size_t>(layout_.rank_tokens));
  };
  fill<std::int64_t>(state_.memory, batch.tokens, micro_batch, of_rank(pack.tokens));
  fill<std::int64_t>(state_.memory, batch.labels, micro_batch, of_rank(pack.labels));
  fill<std::int64_t>(state_.memory, batch.positions, micro_batch, of_rank(positions(pack)));
  std::vector<std::int32_t> boundaries = pack.boundaries;
  const std::int64_t n_documents = std::ssize(boundaries) - 1;
  boundaries.resize(pack.tokens.size() + 1, static_cast<std::int32_t>(pack.tokens.size()));
  fill<std::int32_t>(state_.memory, batch.boundaries, micro_batch, boundaries);
  return {sum_squared_lengths(pack), longest_sample(pack), sample_tokens(pack), n_documents};
}

// Of this rank's tokens of the pack, those that are no padding.
std::int64_t Trainer::sample_tokens(const Pack& pack) const {
  return std::clamp(std::ssize(pack.tokens) - pack.padding - first_token(), std::int64_t{0},
                    layout_.rank_tokens);
}

std::int64_t Trainer::tokens_of_samples() const {
  std::int64_t sum = 0;
  for (const Pack& pack : of_step_) sum += sample_tokens(pack);
  return sum;
}

double Trainer::attention_ratio() const {
  double samples = 0, packs = 0;
  for (const Pack& pack : of_step_) {
    const auto length = static_cast<double>(pack.tokens.size());
    samples += static_cast<double>(sum_squared_lengths(pack));
    packs += length * length;
  }
  return samples / packs;
}

StepOutcome Trainer::step() {
  const auto asked = std::chrono::steady_clock::now();
  take_packs();
  const Duration waited = std::chrono::steady_clock::now() - asked;
  ++position_.step;
  StepRequest request;
  request.rank = rank_;
  request.constants = {learning_rate_at(optimizer_, position_.step),
                       optimizer_.beta1,
                       optimizer_.beta2,
                       optimizer_.adam_eps,
                       optimizer_.weight_decay,
                       optimizer_.max_grad_norm,
                       position_.step,
                       position_.n_updates + 1,
                       optimizer_.momentum,
                       optimizer_.router_bias_update_speed,
                       optimizer_.balance_loss / static_cast<double>(packs_of_all_ranks())};
  activity_->step = position_.step;
  request.activity = activity_;
  request.load_packs = [this](std::int32_t index) { return load(index); };
  StepOutcome outcome;
  outcome.result = execute(state_, request);
  outcome.data_time = to_seconds(waited);
  outcome.tokens = tokens_of_samples();
  outcome.slots = std::ssize(of_step_) * layout_.rank_tokens;
  outcome.attention_ratio = attention_ratio();
  outcome.step = position_.step;
  outcome.loss = scalar(state_.memory, schedule_.batch.loss);
  outcome.grad_norm = std::sqrt(scalar(state_.memory, schedule_.batch.grad_norm));
  if (schedule_.batch.balance_loss != no_buffer)
    outcome.balance_loss = scalar(state_.memory, schedule_.batch.balance_loss);
  outcome.learning_rate = request.constants.learning_rate;
  outcome.is_skipped = !std::isfinite(scalar(state_.memory, schedule_.batch.grad_norm));
  if (!outcome.is_skipped) ++position_.n_updates;
  return outcome;
}

}  // namespace xt

#include "tests/executor/train/oracle.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

#include "costmodel/io/files.h"
#include "costmodel/io/json.h"
#include "costmodel/io/json_document.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "executor/aten_kernels/aten_kernels.h"
#include "executor/train/parameters.h"
#include "executor/train/trainer.h"
#include "executor/weights/elements.h"
#include "planner/lower/lower.h"
#include "tests/executor/runtime/threaded_streams.h"
#include "tests/executor/train/digest.h"
#include "tests/executor/train/schedule_memory.h"

namespace xt {
namespace {

constexpr int n_steps = 5;
constexpr std::int64_t batch_of_files = 4;
constexpr std::int64_t pack_of_files = 48;

using Tensors = std::map<std::string, std::vector<float>>;

/// Shards of the gradients in the order of the flats; filled by a kernel, which holds no state.
std::vector<std::vector<float>> captured;
KernelFunction plain_square_sum = nullptr;

void capturing_square_sum(const KernelCall& call) {
  const float* x = call.inputs[0].const_data_ptr<float>();
  captured.emplace_back(x, x + call.inputs[0].numel());
  plain_square_sum(call);
}

std::vector<std::vector<Pack>> read_packs(const std::filesystem::path& folder,
                                          std::int64_t padding) {
  const Json document = parse_json(read_file(folder / "packs.json"));
  std::vector<std::vector<Pack>> steps;
  for (const Json& step : document.at("steps").items()) {
    std::vector<Pack>& packs = steps.emplace_back();
    for (const Json& pack : step.items()) {
      auto token = pack.at("tokens").items().begin();
      std::vector<std::vector<std::int64_t>> pieces;
      for (const Json& length : pack.at("documents").items()) {
        std::vector<std::int64_t>& piece = pieces.emplace_back();
        for (std::int64_t i = 0; i < length.as_int(); ++i) piece.push_back((token++)->as_int());
      }
      packs.push_back(pack_of(pieces));
      pad(packs.back(), pack_of_files + padding, pack_of_files);
    }
  }
  return steps;
}

PlanOptimizer optimizer_of(const Json& expected) {
  const Json& of = expected.at("optimizer");
  PlanOptimizer optimizer;
  optimizer.learning_rate = of.at("learning_rate").as_double();
  optimizer.beta1 = of.at("beta1").as_double();
  optimizer.beta2 = of.at("beta2").as_double();
  optimizer.adam_eps = of.at("epsilon").as_double();
  optimizer.weight_decay = of.at("weight_decay").as_double();
  optimizer.max_grad_norm = of.at("clip_norm").as_double();
  if (const Json* balance = expected.find("balance_loss"))
    optimizer.balance_loss = balance->as_double();
  return optimizer;
}

Schedule schedule_of(const OracleCase& of, const std::filesystem::path& folder,
                     const Json& expected) {
  const auto config = read<ModelConfig>(read_json(folder / "config.json"));
  Strategy strategy;
  strategy.ranks = of.ranks;
  strategy.expert_parallel = of.expert_parallel;
  strategy.sample_length = pack_of_files;
  strategy.pack_length = pack_of_files + of.padding;
  strategy.gradient_accumulation = of.gradient_accumulation;
  strategy.recompute_layers = of.recompute_layers;
  strategy.swap_layers = of.swap_layers;
  strategy.reshards_layers = of.reshards_layers;
  strategy.loss_chunk = of.loss_chunk;
  strategy.sequence_parallel = of.sequence_parallel;
  strategy.shard_ranks = of.shard_ranks;
  strategy.intra_layer_micro_batches = of.micro_batches;
  strategy.recompute_ops = of.recompute_ops;
  strategy.has_balance_loss = expected.find("balance_loss") != nullptr;
  return lower(build_decoder(config.architecture, graph_options(strategy)), strategy);
}

/// A whole published tensor.
struct PublishedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> elements;
};

/// The tensors of the model, put together from the shards of all ranks; sorted by name.
template <typename ShardOf>
std::vector<PublishedTensor> assembled(const Schedule& schedule, const ShardOf& shard_of) {
  std::map<std::string, PublishedTensor> tensors;
  for (const TensorSpec& of : published_tensors(schedule, DType::fp32))
    tensors[of.name] = {of.name, of.shape,
                        std::vector<float>(static_cast<std::size_t>(of.elements()))};
  for (std::int32_t rank = 0; rank < schedule.ranks; ++rank)
    for (const Stretch& stretch : stretches_of(schedule, rank)) {
      const std::span<const float> from =
          shard_of(rank, stretch.flat)
              .subspan(static_cast<std::size_t>(stretch.shard_offset),
                       static_cast<std::size_t>(stretch.elements));
      std::ranges::copy(from, tensors.at(stretch.name).elements.begin() + stretch.first);
    }
  std::vector<PublishedTensor> list;
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  return list;
}

double relative_difference(const std::vector<float>& found, const StoredTensor& stored) {
  std::vector<float> expected(found.size());
  decode(stored.bytes, stored.dtype, 0, expected);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double delta = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    difference += delta * delta;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// One run of a case on this rank.
class OracleRun {
 public:
  OracleRun(const OracleCase& of, Rendezvous& rendezvous, GlooNetwork& network)
      : case_(of),
        folder_(std::filesystem::path(XT_ORACLE_DATA) / of.model),
        expected_(parse_json(read_file(folder_ / "expected.json"))),
        packs_(read_packs(folder_, of.padding)),
        schedule_(schedule_of(of, folder_, expected_)),
        rank_(rendezvous.place().rank),
        all_(network.group("world", group_members(rank_, static_cast<int>(of.ranks), 1))) {
    KernelTable kernels = of.is_as_on_gpus ? aten_kernels() : cpu_kernels();
    KernelFunction& square_sum = kernels[static_cast<std::size_t>(Kernel::square_sum)];
    plain_square_sum = square_sum;
    square_sum = capturing_square_sum;
    captured.clear();
    const auto pack = [this](std::int64_t index) {
      return packs_[static_cast<std::size_t>(index / n_packs())]
                   [static_cast<std::size_t>(index % n_packs())];
    };
    trainer_ = std::make_unique<Trainer>(
        schedule_, kernels, make_communicators(schedule_, network, rank_), rank_, pack,
        optimizer_of(expected_),
        of.is_as_on_gpus ? stream_device(threaded_streams()) : cpu_device());
    load_parameters(schedule_, trainer_->state().memory, rank_,
                    Weights(folder_ / "model.safetensors"));
  }

  void run() {
    for (int step = 0; step < n_steps; ++step) check_step(trainer_->step(), step);
    std::vector<std::vector<float>> own;
    for (const Flat& flat : schedule_.flats) {
      const at::Tensor shard = trainer_->state().memory.tensor(flat.parameter);
      own.emplace_back(shard.const_data_ptr<float>(),
                       shard.const_data_ptr<float>() + shard.numel());
    }
    const std::vector<PublishedTensor> trained = published(own);
    const std::vector<PublishedTensor> gradients = published(first_gradients());
    write_digest(trained);
    if (n_packs() != batch_of_files) return;
    check("gradient", gradients, Weights(folder_ / "gradients.safetensors"));
    check("trained", trained, Weights(folder_ / "trained.safetensors"));
  }

 private:
  std::int64_t n_packs() const {
    return case_.ranks / case_.sequence_parallel * case_.gradient_accumulation *
           case_.micro_batches;
  }

  /// By flat; zeros of one that learns by no gradient.
  std::vector<std::vector<float>> first_gradients() const {
    std::vector<std::vector<float>> gradients;
    auto next = captured.begin();
    for (const Flat& flat : schedule_.flats)
      gradients.push_back(flat.exp_avg == no_buffer
                              ? std::vector<float>(static_cast<std::size_t>(flat.elements))
                              : *next++);
    return gradients;
  }

  void check_step(const StepOutcome& outcome, int step) {
    const auto i = static_cast<std::size_t>(step);
    const Json& told = expected_.at("batches").at(std::to_string(n_packs()));
    const double loss = told.at("losses").items()[i].as_double();
    const double norm = told.at("gradient_norms").items()[i].as_double();
    losses_.push_back(outcome.loss);
    check_balance(outcome, told, i);
    if (!case_.is_as_on_gpus)
      require_memory(trainer_->state(), outcome.result.timeline, case_.name());
    require(std::abs(outcome.loss - loss) <= 1e-5 * loss,
            fmt::format("{}: loss of step {} is {}, expected {}", case_.name(), outcome.step,
                        outcome.loss, loss));
    require(std::abs(outcome.grad_norm - norm) <= 1e-4 * norm,
            fmt::format("{}: gradient norm of step {} is {}, expected {}", case_.name(),
                        outcome.step, outcome.grad_norm, norm));
  }

  void check_balance(const StepOutcome& outcome, const Json& told, std::size_t i) const {
    const Json* all = told.find("balance_losses");
    require(outcome.balance_loss.has_value() == (all != nullptr),
            "routers are balanced if told so");
    if (all == nullptr) return;
    const double loss = all->items()[i].as_double();
    require(std::abs(*outcome.balance_loss - loss) <= 1e-5 * loss,
            fmt::format("{}: balance loss of step {} is {}, expected {}", case_.name(),
                        outcome.step, *outcome.balance_loss, loss));
  }

  std::vector<PublishedTensor> published(const std::vector<std::vector<float>>& own) {
    std::vector<std::vector<float>> all;
    for (std::vector<float> shard : own) {
      std::vector<float>& whole =
          all.emplace_back(shard.size() * static_cast<std::size_t>(all_->size()));
      const auto tensor = [](std::vector<float>& of) {
        return at::from_blob(of.data(), {std::ssize(of)}, at::TensorOptions().dtype(at::kFloat));
      };
      all_->all_gather(tensor(whole), tensor(shard))->wait();
    }
    return assembled(schedule_, [&](std::int32_t rank, std::int32_t flat) {
      const std::size_t n = own[static_cast<std::size_t>(flat)].size();
      return std::span<const float>(all[static_cast<std::size_t>(flat)])
          .subspan(static_cast<std::size_t>(rank) * n, n);
    });
  }

  void check(const char* what, const std::vector<PublishedTensor>& found, const Weights& expected) {
    require(found.size() == expected.names().size(), "every published tensor is there");
    for (const PublishedTensor& tensor : found) {
      const double difference =
          relative_difference(tensor.elements, expected.at(tensor.name, tensor.shape));
      require(difference <= 1e-4, fmt::format("{}: {} of {} differs by {}", case_.name(), what,
                                              tensor.name, difference));
    }
  }

  void write_digest(const std::vector<PublishedTensor>& trained) const {
    const std::optional<std::string> path = process_variable(digest_variable);
    if (!path || rank_ != 0) return;
    BitDigest digest;
    for (const PublishedTensor& tensor : trained)
      digest.add(tensor.elements.data(), tensor.elements.size() * sizeof(float));
    digest.add(losses_.data(), losses_.size() * sizeof(double));
    std::ofstream(*path) << digest.value();
  }

  OracleCase case_;
  std::filesystem::path folder_;
  Json expected_;
  std::vector<std::vector<Pack>> packs_;
  Schedule schedule_;
  int rank_;
  std::unique_ptr<Communicator> all_;  ///< ranks
  std::unique_ptr<Trainer> trainer_;
  std::vector<double> losses_;
};

}  // namespace

std::string OracleCase::name() const {
  std::string text =
      fmt::format("{}_ranks{}_ep{}_accumulation{}_chunk{}_recompute{}_swap{}{}", model, ranks,
                  expert_parallel, gradient_accumulation, loss_chunk, recompute_layers, swap_layers,
                  reshards_layers ? "" : "_stays_gathered");
  if (sequence_parallel > 1) text += fmt::format("_sp{}", sequence_parallel);
  if (shard_ranks > 0) text += fmt::format("_shards{}", shard_ranks);
  if (micro_batches > 1) text += fmt::format("_lock_step{}", micro_batches);
  if (padding > 0) text += fmt::format("_padding{}", padding);
  if (is_as_on_gpus) text += "_as_on_gpus";
  if (!recompute_ops.is_all()) text += "_drops_" + recompute_ops.text();
  std::ranges::replace(text, '+', '_');
  return text;
}

void require_oracle(const OracleCase& of, Rendezvous& rendezvous, GlooNetwork& network) {
  OracleRun(of, rendezvous, network).run();
}

}  // namespace xt

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/diagnostics/nearest.h"
#include "costmodel/hardware/overlay.h"
#include "costmodel/io/lengths_file.h"
#include "costmodel/io/yaml.h"
#include "costmodel/models/decoder.h"
#include "planner/lower/engine.h"
#include "planner/lower/lower.h"
#include "planner/plan/automatic.h"
#include "planner/plan/check.h"
#include "planner/plan/layers.h"
#include "planner/plan/plan.h"

namespace xt {
namespace {

// What `load` makes of the value of `field`, where it is given and known.
template <typename Load>
void load_named(Request& request, std::string_view field, const std::optional<std::string>& name,
                Load load) {
  if (!name) {
    request.problem(field, fmt::format("no {} is given", field),
                    fmt::format("xt-plan list {}s shows what there is", field));
    return;
  }
  try {
    load(*name);
  } catch (const InputError& error) {
    const bool is_unknown_name =
        error.problems().size() == 1 && error.problems().front().where.file.empty();
    if (!is_unknown_name) throw;
    request.problem(field, error.problems().front().message, error.problems().front().hint);
  }
}

class Resolver {
 public:
  Resolver(Request& request, Subject subject) : request_(request), from_(request.fields()) {
    plan_.model_name = std::move(subject.model_name);
    plan_.model_file = std::move(subject.model_file);
    plan_.architecture = std::move(subject.architecture);
    plan_.machine_name = std::move(subject.machine_name);
    plan_.profile = std::move(subject.profile);
    plan_.calibration_error = subject.calibration_error;
  }

  Plan run() {
    choose_engine();
    choose_attention();
    request_.finish();
    choose_counts();
    choose_data();
    check_pipeline(plan_, *rules_, request_);
    request_.finish();
    choose_optimizer();
    choose_run();
    check(plan_, *rules_, request_);
    request_.finish();
    check_balance(plan_, *rules_, request_);
    load_ranks();
    const LeftToPlanner left = choose_layers(plan_.strategy, plan_.architecture, *rules_, request_);
    request_.finish();
    plan_.has_automatic_chunk = left.chunk;
    plan_.has_automatic_swap = left.swap;
    if (left.chunk || left.swap)
      choose_automatic(plan_.strategy, graph_of(plan_), plan_.profile, left);
    return std::move(plan_);
  }

 private:
  void choose_engine();
  void choose_attention();
  void choose_counts();
  void choose_data();
  void load_ranks();
  void choose_optimizer();
  void choose_run();

  Request& request_;
  const RunFile& from_;
  const EngineRules* rules_ = nullptr;
  Plan plan_;
};

void Resolver::choose_engine() {
  const std::string engine = from_.engine.value_or(std::string(default_engine));
  rules_ = engine_named(engine);
  if (rules_ != nullptr) return;
  std::vector<std::string_view> known;
  for (const EngineRules& rules : engines()) known.push_back(rules.name);
  request_.problem("engine", fmt::format("unknown engine `{}`", engine),
                   did_you_mean(engine, known, "known are"));
}

void Resolver::choose_attention() {
  if (!from_.attention_kernel) return;
  plan_.strategy.fuses_attention = *from_.attention_kernel != unfused_attention;
  if (!plan_.strategy.fuses_attention) return;
  if (auto chosen = with_attention(plan_.profile, *from_.attention_kernel)) {
    plan_.profile = std::move(*chosen);
    return;
  }
  const std::vector<std::string> known = attention_libraries(plan_.profile);
  const std::string problem = fmt::format("{} has no curves of attention by `{}`",
                                          plan_.machine_name, *from_.attention_kernel);
  request_.problem(
      "attention_kernel", problem,
      known.empty() ? "leave it out" : did_you_mean(*from_.attention_kernel, known, "known are"));
}

void Resolver::choose_counts() {
  Strategy& s = plan_.strategy;
  s.engine = rules_->name;
  plan_.devices = from_.devices.value_or(1);
  s.ranks = plan_.devices * plan_.profile.ranks_per_device;
  s.expert_parallel = from_.expert_parallel.value_or(1);
  s.pack_length = from_.pack_length.value_or(default_pack_length);
  s.gradient_accumulation = from_.gradient_accumulation.value_or(1);
  s.intra_layer_micro_batches = from_.intra_layer_micro_batches.value_or(1);
  s.expert_parallel_overlap = from_.expert_parallel_overlap.value_or(false);
  s.dispatch = from_.dispatch.value_or(Dispatch::all_to_all);
  s.routing_imbalance = from_.routing_imbalance.value_or(1);
  s.sequence_parallel = from_.sequence_parallel.value_or(1);
  s.context_parallel = from_.context_parallel.value_or(1);
  s.context_exchange = from_.context_exchange.value_or(ContextExchange::all_gather);
  s.tensor_parallel = from_.tensor_parallel.value_or(1);
  s.tensor_sequence_parallel = from_.tensor_sequence_parallel.value_or(true);
  s.tensor_parallel_overlap = from_.tensor_parallel_overlap.value_or(false);
  s.communication_overlap = from_.communication_overlap.value_or(true);
  s.pipeline_parallel = from_.pipeline_parallel.value_or(1);
  s.virtual_stages = from_.virtual_stages.value_or(1);
  s.pipeline_schedule = from_.pipeline_schedule.value_or(ChunkOrder::one_forward_one_backward);
  s.pipeline_layers = from_.pipeline_layers.value_or(std::vector<std::int64_t>());
  s.offload_share = from_.offload_share.value_or(0);
  s.memory_efficient_linear = from_.memory_efficient_linear.value_or(true);
  s.returns_logits = from_.return_logits.value_or(false);
  s.zero = from_.zero.value_or(rules_->most_zero);
  s.shard_ranks = from_.shard_ranks.value_or(0) == s.ranks ? 0 : from_.shard_ranks.value_or(0);
  plan_.seed = from_.seed.value_or(0);
  s.has_balance_loss = from_.balance_loss.value_or(0) > 0;
  s.optimizer = from_.optimizer.value_or(Optimizer::adamw);
  s.swaps_optimizer = from_.swap_optimizer.value_or(false);
  s.offloads_optimizer = from_.offload_optimizer.value_or(false);
  s.offloads_parameters = from_.offload_parameters.value_or(false);
  s.has_fp8_products = from_.fp8_products.value_or(false);
  s.fp8_recipe = from_.fp8_recipe.value_or(rules_->has_transformer_engine ? Fp8Recipe::delayed
                                                                          : Fp8Recipe::blockwise);
  s.gathers_fp8 = from_.fp8_param_gather.value_or(false);
  s.compute_dtype = from_.compute_dtype.value_or(rules_->compute_dtype);
  s.reduce_dtype = from_.reduce_dtype.value_or(rules_->reduce_dtype);
  s.reduce_bucket = from_.reduce_bucket.value_or(rules_->reduce_bucket);
  s.is_compiled = from_.compile.value_or(true);
  s.compiles_loss = from_.compile_loss.value_or(false);
  s.fuses_experts = from_.fused_experts.value_or(true);
  s.recompute_ops = from_.recompute_ops.value_or(RecomputeOps{});
  s.stops_early = from_.recompute_early_stop.value_or(rules_->stops_early());
}

void Resolver::choose_data() {
  Strategy& s = plan_.strategy;
  PlanData& data = plan_.data;
  // What xt-run trains on is text, which loses nothing where it is cut; a gap would be computed.
  data.pack_level =
      from_.pack_level.value_or(rules_->is_executed ? PackLevel::hard : PackLevel::soft);
  data.groups_by_length = from_.group_by_length.value_or(true);
  data.lengths = from_.sample_length.value_or(LengthDistribution{FixedLength{s.pack_length}});
  if (from_.sample_length && from_.sample_lengths)
    request_.problem("sample_lengths", "sample_length says already how long samples are",
                     "leave out one of them");
  if (from_.sample_lengths && !from_.sample_length)
    data.lengths = {read_lengths(*from_.sample_lengths)};
  const auto* fixed = std::get_if<FixedLength>(&data.lengths.shape);
  if (fixed == nullptr) return;
  s.sample_length = fixed->tokens;
  if (fixed->tokens > s.pack_length)
    request_.problem("sample_length", fmt::format("samples of {} tokens do not fit packs of {}",
                                                  fixed->tokens, s.pack_length));
}

// Where lengths differ, a step takes as long as the ranks with the longest samples. Samples that do
// not divide a pack leave it partly empty, but for xt-run's where they are cut: those are pieces of
// longer documents.
void Resolver::load_ranks() {
  Strategy& s = plan_.strategy;
  PlanData& data = plan_.data;
  const auto* fixed = std::get_if<FixedLength>(&data.lengths.shape);
  const bool is_cut = rules_->is_executed && data.pack_level == PackLevel::hard;
  const bool fills_packs = fixed != nullptr && (is_cut || s.pack_length % fixed->tokens == 0);
  if (fills_packs) return;
  const double drawn = drawn_samples(data.lengths, s);
  if (drawn > most_drawn_samples)
    return request_.problem(
        "devices",
        fmt::format("packs of a few steps hold {:.3g} samples, of which {:.3g} can be drawn", drawn,
                    most_drawn_samples),
        "take fewer devices, or samples that divide a pack");
  data.load = data_load(data.lengths, data.pack_level, s, static_cast<std::uint64_t>(plan_.seed));
  s.sample_length = data.load->longest_sample;
  s.sum_squared_lengths =
      std::llround(data.groups_by_length ? data.load->largest_grouped : data.load->largest_plain);
}

void Resolver::choose_optimizer() {
  PlanOptimizer& o = plan_.optimizer;
  o.learning_rate = from_.learning_rate.value_or(o.learning_rate);
  o.learning_rate_schedule = from_.learning_rate_schedule.value_or(o.learning_rate_schedule);
  o.warmup_steps = from_.warmup_steps.value_or(o.warmup_steps);
  o.decay_steps = from_.decay_steps.value_or(o.decay_steps);
  o.min_learning_rate = from_.min_learning_rate.value_or(o.min_learning_rate);
  o.beta1 = from_.beta1.value_or(o.beta1);
  o.beta2 = from_.beta2.value_or(o.beta2);
  o.adam_eps = from_.adam_eps.value_or(o.adam_eps);
  o.weight_decay = from_.weight_decay.value_or(o.weight_decay);
  o.max_grad_norm = from_.max_grad_norm.value_or(o.max_grad_norm);
  o.momentum = from_.momentum.value_or(o.momentum);
  o.balance_loss = from_.balance_loss.value_or(o.balance_loss);
  o.router_bias_update_speed = from_.router_bias_update_speed.value_or(o.router_bias_update_speed);
}

void Resolver::choose_run() {
  plan_.run = {from_.train_tokens, from_.device_hour_price};
  if (from_.device_hour_price && !from_.train_tokens)
    request_.problem("device_hour_price", "says what a run costs, but not how long it is",
                     "add train_tokens");
}

}  // namespace

OpGraph graph_of(const Plan& plan) {
  return build_decoder(plan.architecture, graph_options(plan.strategy));
}

Subject subject_of(Request& request, const Catalogue& catalogue) {
  const RunFile& from = request.fields();
  Subject subject;
  load_named(request, "model", from.model, [&](const std::string& name) {
    subject.architecture = catalogue.model(name).architecture;
    if (from.further_tokens) subject.architecture.further_tokens = *from.further_tokens;
    subject.model_file = catalogue.model_file(name);
    subject.model_name = std::filesystem::path(name).stem().string();
  });
  load_named(request, "machine", from.machine, [&](const std::string& name) {
    subject.profile = catalogue.machine(name);
    if (from.overlay) {
      const auto overlay = read<Overlay>(read_yaml(*from.overlay));
      subject.calibration_error = overlay.residual_ratio;
      subject.profile = with_overlay(std::move(subject.profile), overlay);
    }
    subject.machine_name = name;
  });
  return subject;
}

Plan resolve(Request& request, const Catalogue& catalogue) {
  return resolve(request, subject_of(request, catalogue));
}

Plan resolve(Request& request, Subject subject) {
  return Resolver(request, std::move(subject)).run();
}

}  // namespace xt

#pragma once

// The state of one lowering, shared by the files that write the parts of a step. Private to lower/.

#include <array>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/ir/op_graph.h"
#include "costmodel/ir/pipeline.h"
#include "costmodel/ir/schedule_builder.h"
#include "planner/lower/engine.h"
#include "planner/lower/lowering_values.h"
#include "planner/lower/prepared_block.h"
#include "planner/lower/stage_part.h"
#include "planner/strategy.h"

namespace xt {

/// Writes one step.
class Lowering {
 public:
  Lowering(const OpGraph& graph, std::span<const std::uint16_t> layers, const Strategy& strategy,
           const EngineRules& rules, const StagePart* stage = nullptr);
  Schedule run() &&;
  Stage run_stage() &&;

 private:
  // units.cpp: flat buffers, gathers, reductions
  void make_units();
  FsdpUnit make_unit(PreparedBlock& block, std::int16_t layer, std::string_view label);
  UnitFlat make_flat(const FsdpUnit& unit, const FlatLayout& layout, Group group, std::string name);
  void place(const FsdpUnit& unit, const UnitFlat& flat);
  void gather(FsdpUnit& unit, Phase phase);
  void gather_flat(const FsdpUnit& unit, UnitFlat& flat, Phase phase);
  void gather_wide(const FsdpUnit& unit, UnitFlat& flat, Phase phase);
  void copy_out(FsdpUnit& unit, Phase phase);
  void release(FsdpUnit& unit);
  void leave(FsdpUnit& unit);
  void open_gradients(FsdpUnit& unit, Phase phase);
  void reduce(FsdpUnit& unit, bool is_first);
  BufferId reduce_flat(const FsdpUnit& unit, UnitFlat& flat, bool is_first);
  TensorSpec put_together(TensorSpec whole) const;
  void reduce_root(bool is_first);
  void convert_reduced(const Origin& from, UnitFlat& flat, BufferId reduced, bool is_first);
  void settle(bool is_first);

  // reductions_in_flight.cpp: what they read
  bool has_reductions_in_flight() const {
    return rules_.reductions_in_flight > 0 && strategy_.zero == 3;
  }
  void wait_for(const ReductionInFlight& of);
  void wait_for_oldest(const UnitFlat& flat);
  void wait_for_all();

  std::vector<OpId> pending_ops() const;
  std::vector<Values> unbound_values(const PreparedBlock& block) const;
  void bind_parameters(const FsdpUnit& unit, std::span<Values> values);
  BufferId weight_view(const FsdpUnit& unit, const UnitFlat& flat, std::size_t i);
  BufferId gradient_view(const FsdpUnit& unit, const UnitFlat& flat, std::size_t i);
  BufferId piece_view(const FsdpUnit& unit, std::size_t parameter, bool is_gradient);

  // balance_loss.cpp: the auxiliary loss of routers
  void make_balance_loss();
  void clear_balance_loss();
  void clear_pack_loads();
  void sum_balance_loss();

  // router_bias.cpp: biases of routers, which learn by counts
  void make_router_bias(const FsdpUnit& unit, const std::string& name);
  RouterBias router_bias(std::int16_t layer) const;
  void clear_expert_loads();
  void update_router_biases();

  // stages.cpp: what ranks keep whole below stage 3 of ZeRO
  bool keeps_weights() const { return strategy_.zero < 3 || stage_ != nullptr; }
  bool keeps_gradients() const {
    const bool scatters = rules_.keeps_only_sums && strategy_.gradient_accumulation == 1;
    return strategy_.zero < (scatters ? 1 : 2) || stage_ != nullptr;
  }
  bool defers_reductions() const { return strategy_.zero == 3 && stage_ != nullptr; }
  bool gathers_in_forward() const {
    return (rules_.gathers_in_forward && strategy_.communication_overlap) || strategy_.zero == 3;
  }
  bool has_buckets() const { return rules_.has_gradient_buckets && strategy_.zero == 0; }
  bool reduces_at_end() const {
    return rules_.reduces_at_end || (rules_.has_gradient_buckets && !has_buckets()) ||
           (strategy_.zero < 3 && !strategy_.communication_overlap);
  }
  bool keeps_narrow_shards() const {
    return rules_.keeps_narrow_shards && graph_.dtype != DType::fp32;
  }
  bool gathers_wide() const { return rules_.gathers_wide && graph_.dtype != DType::fp32; }
  bool keeps_gradient_shards() const {
    return rules_.keeps_gradient_shards && strategy_.zero == 3 && stage_ == nullptr &&
           !strategy_.offloads_optimizer;
  }
  DType kept_gradient() const {
    return keeps_narrow_shards() ? strategy_.reduce_dtype : DType::fp32;
  }
  bool adds_gradients() const { return keeps_gradients() && (rules_.sums_from_zero || !is_first_); }
  bool is_split(const UnitFlat& flat) { return group_size(flat.group) > 1; }
  void make_copies(UnitFlat& flat);
  BufferId own_weights(const UnitFlat& flat);
  void refresh(const FsdpUnit& unit, UnitFlat& flat, Phase phase);
  void make_fp8_copies(UnitFlat& flat);
  void quantise(const FsdpUnit& unit, UnitFlat& flat, Phase phase);
  void transpose(const FsdpUnit& unit, UnitFlat& flat);
  bool transposes_gathered(const UnitFlat& flat) const {
    return flat.layout->has_fp8() && rules_.has_transformer_engine && !keeps_weights();
  }
  bool keeps_in_fp8(const UnitFlat& flat) const {
    return flat.layout->has_fp8() && strategy_.gathers_fp8;
  }
  void clear_gradients();
  void reduce_kept(const FsdpUnit& unit, UnitFlat& flat);
  void reduce_whole(const FsdpUnit& unit, const UnitFlat& flat);
  void reduce_deferred();
  void all_reduce_kept(const FsdpUnit& unit, const UnitFlat& flat, Lane lane);
  void reduce_at_end();
  void reduce_in_buckets();
  void reduce_bucket(std::span<UnitFlat* const> flats, std::int64_t elements);
  void reduce_over_tensor_ranks();
  void widen_gradient(const FsdpUnit& unit, UnitFlat& flat);
  void widen_gradients();
  void update_in_groups();
  void publish_weights();

  // further_tokens.cpp: layers that predict further tokens, each with a loss of its own
  std::size_t own_layers() const {
    return layers_.size() - static_cast<std::size_t>(graph_.further_tokens);
  }
  bool predicts_further(std::size_t layer) const {
    return layer >= own_layers() && layer < layers_.size();
  }
  void embed_next(std::size_t layer);
  void embed_next_backward(std::size_t layer, std::span<const Values> values);
  void add_loss_gradient(std::size_t layer);
  void further_losses();
  BufferId joined_inputs(std::size_t layer);

  // broadcasts.cpp: updated weights, from each rank that updates some
  void broadcast_weights();

  // stand_ins.cpp: what autograd is given for gradients that products add up
  void make_stand_ins();
  OpId head_gradient_product(Kernel kernel, const Origin& from, std::int64_t rows,
                             BufferId d_logits, BufferId hidden, BufferId gradient);

  // held_outputs.cpp: what a forward pass returns, until the end of its micro-step
  void hold_keys(const PreparedBlock& block, std::span<const Values> values);
  void hold_outputs();

  // host_update.cpp: what waits and is updated on the host
  Space space_of_state() const {
    return strategy_.offloads_optimizer ? Space::host : Space::device;
  }
  BufferId brought(const FsdpUnit& unit, const UnitFlat& flat, Phase phase);
  OpId leave_on_host(const FsdpUnit& unit, UnitFlat& flat, BufferId reduced, Lane lane);
  void update_on_host(const FsdpUnit& unit, UnitFlat& flat);

  // micro_step.cpp: forward, recompute, backward, swap
  void micro_step(bool is_first, std::int64_t repeat);
  void make_rope_tables();
  void forward();
  std::vector<Values> embed();
  void embedding_forward();
  void backward(bool is_first);
  void hold_unread(const PreparedBlock& block, const Values& values);
  static void forget(const PreparedBlock& block, Values& values);
  void layer_forward(std::int16_t layer);
  void layer_backward(std::int16_t layer, bool is_first);
  void embedding_backward(bool is_first);
  void release_read_head();
  void swap_out(std::int16_t layer);
  void swap_in(std::int16_t layer);
  BufferId& input(std::size_t layer, std::size_t micro_batch) {
    return inputs_[layer * micro_batches_.size() + micro_batch];
  }
  std::vector<BlockRun> runs(PreparedBlock& block, std::span<Values> values, Phase phase,
                             std::int16_t layer) const;

  // pairs.cpp: a micro-step forward while the one before runs backward
  void paired_micro_steps();
  void pair_micro_steps();
  void pair_layers(std::int16_t forward, std::int16_t backward, PassedMicroBatch& passed);
  PassedMicroBatch pass_micro_batch();
  void embedding_backward_of(PassedMicroBatch& passed);
  void emit_part(std::vector<PreparedOp>& ops, const BlockRun& run, const BlockPart& part);

  // chunks.cpp: the layers of a pipeline stage, chunk by chunk
  ChunkSections chunk_sections(const ChunkLayers& chunk);
  void gather_next(const ChunkLayers& chunk);
  std::uint32_t chunk_forward(const ChunkLayers& chunk);
  std::uint32_t chunk_backward(const ChunkLayers& chunk);
  BufferId received(Phase phase);
  BufferId gathered_parts(Phase phase, MemoryCategory category, BufferId part);
  std::uint32_t end_chunk(Phase phase);
  bool begins_model(const ChunkLayers& chunk) const;
  bool ends_model(const ChunkLayers& chunk) const;
  void reduce_shared_embedding();

  // chunk_pairs.cpp: chunks of a stage, one forward while another runs backward
  void pair_chunks(Stage& stage);
  std::uint32_t chunk_pair(const ChunkLayers& forward, const ChunkLayers& backward);
  void layer_backward_of(std::int16_t layer, PassedMicroBatch& passed);

  // zero_bubble.cpp: backward passes of chunks in two halves
  bool splits_backward() const {
    return stage_ != nullptr && strategy_.pipeline_schedule == ChunkOrder::zero_bubble;
  }
  bool writes(const GraphOp& op, const Block& block) const;
  std::uint32_t chunk_inputs(const ChunkLayers& chunk);
  std::uint32_t chunk_weights(const ChunkLayers& chunk);
  void head_weights();
  void head_weight_product(const HeadProduct& product);

  // offload.cpp: what a chunk keeps, in host memory between its passes
  bool offloads(const ChunkLayers& chunk) const;
  void choose_offloaded(const ChunkLayers& chunk);
  void choose_offloaded(std::span<BufferId*> kept);
  void split_offloaded();
  void copy_chunk_out();
  void copy_chunk_in();
  void join_offloaded();
  OpId copy(Kernel kernel, Phase phase, std::int64_t elements, BufferId from, BufferId to);
  BufferId part_of(BufferId whole, std::int64_t first, std::int64_t elements);

  // block_run.cpp: the ops of a block, for all micro-batches in lock-step
  void run_forward(std::span<const BlockRun> runs, std::span<const OpId> last_waits_for);
  void recompute(std::span<const BlockRun> runs);
  void run_backward(std::span<const BlockRun> runs);
  void emit(PreparedOp& op, const BlockRun& run, std::span<const OpId> after = {});
  void add_gradient(const BlockRun& run, ValueId gradient, BufferId addend);
  void add_gradient(const Origin& from, const PendingSum& pending);
  void add_pending();
  void know(PreparedOp& op, const BlockRun& run);
  WorkId work_of(const PreparedOp& op, std::optional<BufferId> sum);
  BufferId given_value(const BlockRun& run, ValueRole role);
  BufferId make_value(const BlockRun& run, ValueId id);
  MemoryCategory category(const BlockRun& run, ValueId id) const;
  Extent bound(SymbolKind kind, const BlockRun& run) const;
  Extent resolve(Extent extent, const BlockRun& run) const {
    return extent.is_symbol() ? bound(static_cast<SymbolKind>(extent.symbol()), run) : extent;
  }
  bool recomputes_to_end() const {
    return rules_.recomputes_to_end && !strategy_.stops_early && strategy_.recompute_ops.is_all();
  }
  bool holds_unread() const { return !strategy_.is_compiled && !strategy_.recompute_ops.is_all(); }
  bool is_recomputed(std::int16_t layer) const {
    return stage_ != nullptr ? stage_->recomputes[static_cast<std::size_t>(layer)]
                             : layer < strategy_.recompute_layers;
  }
  bool is_swapped(std::int16_t layer) const { return layer < strategy_.swap_layers; }

  // loss.cpp
  void loss(bool is_first);
  void differentiate_loss();
  bool adds_head_gradient() const { return adds_gradients() || is_further_loss_; }
  void final_norm_forward(std::span<const OpId> after);
  void final_norm_backward();
  BufferId rows_of(BufferId whole, std::size_t micro_batch);
  void loss_chunks();
  void cross_entropy(const Origin& from, std::int64_t rows, BufferId logits, BufferId labels);
  void compiled_cross_entropy(const Origin& from, std::int64_t rows, BufferId logits,
                              BufferId labels);
  void gather_hidden();
  void reduce_hidden();
  bool shares_tokens() const {
    return strategy_.tensor_parallel > 1 && strategy_.tensor_sequence_parallel;
  }
  /// Of a chunk of the loss.
  struct LossRows {
    BufferId hidden, d_hidden, labels;
  };
  LossRows loss_rows(std::int64_t first, std::int64_t rows);
  void loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows);
  void autograd_loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows);
  void liger_loss_chunk(std::int16_t chunk, std::int64_t first, std::int64_t rows);
  bool keeps_read_head() const {
    return rules_.keeps_read_head && strategy_.zero == 3 && has_liger_loss();
  }
  bool has_liger_loss() const { return rules_.has_liger_loss && strategy_.compiles_loss; }
  void finish_autograd_loss();
  BufferId head_weight(bool is_gradient);

  // loss_metrics.cpp
  void log_metrics();
  void pass_logits(const Origin& from, std::int64_t rows, BufferId logits);
  void score_logits(std::int64_t rows, BufferId logits);
  void log_tokens(const Origin& from, std::int64_t rows, BufferId logits);

  // lower.cpp: what is resident, and the sections
  void make_symbols();
  PackSymbols symbols_of(std::int16_t micro_batch);
  void make_resident();
  void make_micro_batches();
  void prepare();
  void micro_steps();
  void optimize();
  void sum_scalars();
  std::vector<BufferId> roots_of_all();
  void update(const FsdpUnit& unit, UnitFlat& flat);
  BufferId fetched(BufferId moment, const Origin& origin);
  OpId write_back(BufferId copy, BufferId moment, const Origin& origin);

  // gathered_muon.cpp: the same where matrices lie in flats of their own
  bool gathers_for_muon() const {
    return rules_.is_executed && strategy_.optimizer == Optimizer::muon;
  }
  std::map<std::array<std::int64_t, 2>, std::vector<BufferId>> matrices_in(const FsdpUnit& unit,
                                                                           const UnitFlat& flat,
                                                                           BufferId whole);
  void orthogonalise_parts(const FsdpUnit& unit, const UnitFlat& flat, BufferId whole);
  void update_by_gathered_muon(const FsdpUnit& unit, UnitFlat& flat);

  // muon.cpp: matrices of layers, where Muon updates them
  bool is_of_muon(const FsdpUnit& unit, const GraphParameter& parameter) const;
  std::int64_t adamw_elements(const FsdpUnit& unit, const UnitFlat& flat);
  std::vector<MuonBatch> muon_matrices();
  std::vector<MuonBatch> muon_batches();
  void choose_route(MuonBatch& batch);
  void update_by_muon();
  void begin(MuonBatch& batch);
  void orthogonalise(MuonBatch& batch);
  void apply(const MuonBatch& batch);
  void take_momentum(MuonBatch& batch);
  void sum_of_all(MuonBatch& batch);
  void exchange_update(MuonBatch& batch, Kernel kernel, Group over, std::int64_t elements);
  BufferId newton_schulz(const MuonBatch& batch, BufferId x);
  BufferId product(const MuonBatch& batch, const std::array<std::int64_t, 3>& shape, BufferId a,
                   BufferId b);
  BufferId muon_buffer(std::int64_t elements, DType dtype = DType::bf16);
  void pass(std::span<const BufferId> inputs, std::span<const BufferId> outputs,
            std::int64_t elements, std::int64_t bytes_each);
  BufferId passed(std::initializer_list<BufferId> inputs, std::int64_t elements,
                  std::int64_t bytes_each);

  // One op with everything spelt out.
  OpId op(const Work& work, const Origin& origin, std::initializer_list<BufferId> inputs,
          std::initializer_list<BufferId> outputs, Lane lane = Lane::compute,
          std::span<const OpId> after = {});
  OpId cast(const Origin& origin, Extent elements, BufferId from, BufferId to,
            Lane lane = Lane::compute);
  OpId op(Kernel kernel, const Origin& origin, std::initializer_list<Extent> extents,
          std::initializer_list<BufferId> inputs, std::initializer_list<BufferId> outputs,
          Lane lane = Lane::compute, Group group = Group::none, std::span<const OpId> after = {});
  Origin origin(Phase phase, StepPart part, std::int16_t layer = -1, std::int16_t chunk = -1);
  bool keeps_gathered(const FsdpUnit& unit) const;
  bool keeps_root() const { return rules_.keeps_root && stage_ == nullptr; }
  std::int64_t group_size(Group group);
  Lane lane_of(Lane lane) const;
  Lane pool(Lane stream) const { return rules_.pools_by_stream ? stream : Lane::compute; }

  const OpGraph& graph_;
  std::span<const std::uint16_t> layers_;  ///< index into the graph's decoder blocks, per layer
  const Strategy& strategy_;
  const EngineRules& rules_;
  const StagePart* stage_ = nullptr;  ///< of a pipeline, or none
  ScheduleBuilder build_;
  std::vector<PreparedBlock> blocks_;  ///< embedding, distinct decoder layers, head
  std::vector<FsdpUnit> units_;        ///< embedding, layers, head
  std::vector<PendingReduce> pending_;
  std::vector<ReductionInFlight> in_flight_;  ///< the oldest first
  std::vector<PendingSum> pending_sums_;
  std::vector<RouterBias> router_biases_;
  std::vector<FsdpUnit*> deferred_;  ///< units whose gradients wait for the end of a chunk

  std::vector<PackSymbols> symbols_;  ///< by micro-batch; one for all that is only priced
  BufferId scalars_ = no_buffer;
  std::vector<MicroBatch> micro_batches_;

  // Per layer and micro-batch, micro-batches of a layer side by side.
  std::vector<std::vector<Values>> kept_;  ///< what the forward pass left for the backward pass
  std::vector<Values> kept_of_embedding_;  ///< by micro-batch
  std::vector<std::vector<Values>> kept_of_next_;  ///< the same for each further token
  bool is_further_loss_ = false;           ///< the one being written, to whose gradients it adds
  std::vector<BufferId> inputs_;           ///< after the last layer, the head's
  std::vector<BufferId> on_host_;          ///< inputs, swapped out
  bool is_first_ = true, is_last_ = true;  ///< of the micro-steps, the one being written
  BackwardHalf half_ = BackwardHalf::both;
  std::vector<HeadProduct> head_products_;  ///< of the micro-batch being written
  OpId pending_swap_ = no_op;
  std::vector<OffloadedTensor> offloaded_;  ///< of the chunk being written
  BufferId hidden_ = no_buffer, d_hidden_ = no_buffer;
  std::vector<BufferId> final_rstd_;  ///< by micro-batch
  BufferId head_weight_ = no_buffer, head_gradient_ = no_buffer;
  BufferId last_chunk_gradient_ = no_buffer;
  BufferId logits_ = no_buffer;    ///< of the last chunk, in the dtype of products
  std::vector<BufferId> outputs_;  ///< of the micro-step, where they are held

  std::vector<BufferId> operands_;                                 ///< of the op being written
  std::vector<std::pair<ValueId, BufferId>> added_;                ///< by it: gradient and addend
  std::vector<WorkspaceSpec> workspaces_;                          ///< of the op being written
  std::array<std::int16_t, step_part_names.size()> step_parts_{};  ///< 1 + index; 0 if unused yet
};

}  // namespace xt

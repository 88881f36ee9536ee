// Muon: matrices of layers are updated by their momentum made orthogonal, which takes whole
// matrices. While those of a batch are orthogonalised, parts of the next batch are on their way and
// those of the one before return.
//
// Source: XTuner V1 (InternLM/xtuner, b934f4620), config/optim.py and optim/muon.py: which
// parameters,
//         which routes, passes of multi-tensor kernels, at most three batches at once

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/lower/lowering.h"

namespace xt {
namespace {

constexpr std::int64_t iterations = 5;
constexpr std::int64_t wide = 4, narrow = 2;  // bytes of fp32 and of bf16

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// Visits the flats that the matrices of `batch` lie in with their part of its elements, as many at
// once as a multi-tensor kernel takes.
template <typename Visit>
void for_each_launch(const MuonBatch& batch, Visit visit) {
  constexpr std::size_t tensors_of_launch = 100;
  std::vector<UnitFlat*> flats = batch.flats;
  std::ranges::sort(flats, {}, [](const UnitFlat* flat) { return flat->flat; });
  flats.erase(std::unique(flats.begin(), flats.end()), flats.end());
  for (std::size_t first = 0; first < flats.size(); first += tensors_of_launch) {
    const std::size_t n = std::min(tensors_of_launch, flats.size() - first);
    const auto share = static_cast<std::int64_t>(n), all = static_cast<std::int64_t>(flats.size());
    visit(std::span(flats).subspan(first, n), batch.shard_elements * share / all);
  }
}

}  // namespace

bool Lowering::is_of_muon(const FsdpUnit& unit, const GraphParameter& parameter) const {
  return strategy_.optimizer == Optimizer::muon && unit.layer >= 0 &&
         parameter.pieces.front().n_dimensions > 1;
}

// Of a shard, the elements of embedding, head and vectors; all where Muon is not used.
std::int64_t Lowering::adamw_elements(const FsdpUnit& unit, const UnitFlat& flat) {
  if (strategy_.optimizer != Optimizer::muon) return flat.shard_elements;
  if (gathers_for_muon()) {
    const GraphParameter& first = unit.block->graph->parameters[flat.layout->parameters.front()];
    return is_of_muon(unit, first) ? 0 : flat.shard_elements;
  }
  std::int64_t elements = 0;
  for (const std::uint16_t i : flat.layout->parameters) {
    const GraphParameter& parameter = unit.block->graph->parameters[i];
    if (!is_of_muon(unit, parameter)) elements += parameter.elements;
  }
  return divided_up(elements, group_size(flat.group));
}

// Every matrix that Muon updates, as a batch of its own.
std::vector<MuonBatch> Lowering::muon_matrices() {
  std::vector<MuonBatch> matrices;
  for (FsdpUnit& unit : units_)
    for (UnitFlat& flat : unit.flats)
      for (const std::uint16_t i : flat.layout->parameters) {
        const GraphParameter& parameter = unit.block->graph->parameters[i];
        if (!is_of_muon(unit, parameter)) continue;
        const std::vector<Piece>& pieces = parameter.pieces;
        MuonBatch matrix;
        matrix.flats = {&flat};
        matrix.shard = flat.group;
        matrix.block_rows = pieces.front().shape[0];
        matrix.columns = pieces.front().shape[1];
        if (parameter.is_expert) {
          const bool is_up = pieces.size() > 1 && pieces[1].expert == pieces[0].expert;
          matrix.blocks = static_cast<std::int64_t>(pieces.size());
          matrix.within = is_up ? Group::up_matrix : Group::down_matrix;
        }
        for (std::size_t n = parameter.is_expert ? 1 : pieces.size(); n > 0; --n)
          matrices.push_back(matrix);
      }
  return matrices;
}

// Experts stay where they are if every rank has whole ones, or meet where a few ranks share one;
// whole tensors go around otherwise, each rank taking one of as many as there are ranks.
void Lowering::choose_route(MuonBatch& batch) {
  const std::int64_t ranks = group_size(batch.shard), blocks = batch.blocks;
  const auto matrices = static_cast<std::int64_t>(batch.flats.size());
  batch.shard_elements = matrices * divided_up(blocks * batch.block_rows, ranks) * batch.columns;
  batch.blocks_here = blocks;
  if (ranks == 1) return;
  if (blocks > 1 && blocks % ranks == 0) {
    batch.blocks_here = blocks / ranks;
  } else if (blocks > 1 && ranks % blocks == 0) {
    batch.route = MuonRoute::gather;
    batch.blocks_here = 1;
    std::array<GroupShape, group_names.size()>& groups = build_.draft().groups;
    groups[static_cast<std::size_t>(batch.within)] = {
        static_cast<std::int32_t>(ranks / blocks),
        groups[static_cast<std::size_t>(batch.shard)].stride};
  } else {
    batch.route = matrices == ranks ? MuonRoute::exchange : MuonRoute::gather_and_sum;
  }
}

// Matrices of one shape, as many at once as there are ranks to take one each.
std::vector<MuonBatch> Lowering::muon_batches() {
  std::map<std::tuple<Group, std::int64_t, std::int64_t, std::int64_t>, std::vector<MuonBatch>>
      by_shape;
  for (MuonBatch& matrix : muon_matrices())
    by_shape[{matrix.shard, matrix.block_rows, matrix.columns, matrix.blocks}].push_back(
        std::move(matrix));
  std::vector<MuonBatch> batches;
  for (const auto& [shape, matrices] : by_shape) {
    const std::int64_t ranks = group_size(matrices.front().shard), blocks = matrices.front().blocks;
    const bool is_alone = blocks > 1 && (blocks % ranks == 0 || ranks % blocks == 0);
    const std::size_t size = is_alone ? 1 : static_cast<std::size_t>(ranks);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      if (i % size == 0) {
        batches.push_back(matrices[i]);
      } else {
        batches.back().flats.push_back(matrices[i].flats.front());
      }
    }
  }
  for (MuonBatch& batch : batches) choose_route(batch);
  return batches;
}

BufferId Lowering::muon_buffer(std::int64_t elements, DType dtype) {
  return build_.transient({{elements, 1, 1}, dtype, MemoryCategory::optimizer, Space::device});
}

// One elementwise kernel.
void Lowering::pass(std::span<const BufferId> inputs, std::span<const BufferId> outputs,
                    std::int64_t elements, std::int64_t bytes_each) {
  const Work work{Kernel::cast, DType::fp32, Group::none, {elements, bytes_each}};
  build_.add(
      {work, Lane::compute, origin(Phase::optimizer, StepPart::muon), inputs, outputs, {}, {}});
}

// One elementwise kernel that makes a new tensor in bf16.
BufferId Lowering::passed(std::initializer_list<BufferId> inputs, std::int64_t elements,
                          std::int64_t bytes_each) {
  const BufferId y = muon_buffer(elements);
  pass({inputs.begin(), inputs.size()}, {&y, 1}, elements, bytes_each);
  return y;
}

// Momentum takes the gradients in; what it would be after one more such step is the update.
void Lowering::take_momentum(MuonBatch& batch) {
  const BufferId ahead = muon_buffer(batch.shard_elements, DType::fp32);
  for_each_launch(batch, [&](std::span<UnitFlat* const> flats, std::int64_t elements) {
    std::vector<BufferId> gradients, momenta;
    for (const UnitFlat* flat : flats) {
      gradients.push_back(flat->gradient_shard);
      momenta.push_back(build_.draft().flats[static_cast<std::size_t>(flat->flat)].exp_avg);
    }
    pass(momenta, momenta, elements, 2 * wide);
    pass(gradients, momenta, elements, 3 * wide);
    pass(momenta, {&ahead, 1}, elements, 2 * wide);
    pass(gradients, {&ahead, 1}, elements, 3 * wide);
  });
  batch.update = passed({ahead}, batch.shard_elements, wide + narrow);
}

// What a collective of so many elements makes of the update takes its place.
void Lowering::exchange_update(MuonBatch& batch, Kernel kernel, Group over, std::int64_t elements) {
  const bool scatters = kernel == Kernel::reduce_scatter;
  const BufferId result = muon_buffer(scatters ? batch.shard_elements : elements);
  Work work{kernel, DType::bf16, over, {elements}};
  if (kernel == Kernel::all_to_all)
    work.extents = {elements / batch.columns, elements / batch.columns, batch.columns};
  op(work, origin(Phase::optimizer, StepPart::muon), {batch.update}, {result}, Lane::all_gather);
  batch.update = result;
}

// Up to where parts of whole matrices are on their way.
void Lowering::begin(MuonBatch& batch) {
  const std::int64_t n = batch.shard_elements;
  take_momentum(batch);
  switch (batch.route) {
    case MuonRoute::local:
      break;
    case MuonRoute::gather:
      exchange_update(batch, Kernel::all_gather, batch.within, batch.block_rows * batch.columns);
      break;
    case MuonRoute::exchange:
      batch.update = passed({batch.update}, n, 2 * narrow);
      exchange_update(batch, Kernel::all_to_all, batch.shard, n);
      break;
    case MuonRoute::gather_and_sum:
      batch.update = passed({batch.update}, n, 2 * narrow);
      exchange_update(batch, Kernel::all_gather, batch.shard, n * group_size(batch.shard));
      break;
  }
}

// A product per block that a rank orthogonalises, [m,n] over k each.
BufferId Lowering::product(const MuonBatch& batch, const std::array<std::int64_t, 3>& shape,
                           BufferId a, BufferId b) {
  const auto& [m, n, k] = shape;
  const std::int64_t blocks = batch.blocks_here;
  const BufferId y = muon_buffer(blocks * m * n);
  const Work one{Kernel::matmul, DType::bf16, Group::none, {m, n, k}};
  const Work many{Kernel::grouped_matmul, DType::bf16, Group::none, {blocks * m, n, k, blocks}};
  op(blocks == 1 ? one : many, origin(Phase::optimizer, StepPart::muon), {a, b}, {y});
  return y;
}

// X over its norm, then five times X = a·X + (b·A + c·A·A)·X with A = X·Xᵀ, on the shorter side s
// of a block and the longer one l: 4·s²·l + 2·s³ flops each.
//
// Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
BufferId Lowering::newton_schulz(const MuonBatch& batch, BufferId whole) {
  const std::int64_t s = std::min(batch.block_rows, batch.columns);
  const std::int64_t l = std::max(batch.block_rows, batch.columns);
  const std::int64_t square = batch.blocks_here * s * s, n = batch.blocks_here * s * l;
  BufferId x = passed({whole}, n, 3 * narrow);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const BufferId gram = product(batch, {s, s, l}, x, x);
    const BufferId squared = product(batch, {s, s, s}, gram, gram);
    const BufferId polynomial = passed({gram, squared}, square, 7 * narrow);
    const BufferId change = product(batch, {s, l, s}, polynomial, x);
    x = passed({x, change}, n, 5 * narrow);
  }
  return x;
}

// Of all matrices that were gathered, a rank orthogonalises one and has zeros for the others, so
// that the sum over ranks is what each has found.
void Lowering::sum_of_all(MuonBatch& batch) {
  const std::int64_t all = batch.shard_elements * group_size(batch.shard);
  const std::int64_t one = batch.blocks * batch.block_rows * batch.columns;
  const BufferId whole = passed({batch.update}, all, 2 * narrow);
  const BufferId found = newton_schulz(batch, whole);
  const BufferId zeros = muon_buffer(std::max<std::int64_t>(0, all - one));
  op({Kernel::fill_zero, DType::bf16, Group::none, {std::max<std::int64_t>(0, all - one)}},
     origin(Phase::optimizer, StepPart::muon), {}, {zeros});
  const BufferId stacked = passed({found, zeros}, all, 2 * narrow);
  batch.update = passed({stacked}, all, 2 * narrow);
  exchange_update(batch, Kernel::reduce_scatter, batch.shard, all);
}

// From whole matrices to where this rank's parts of them are on their way back.
void Lowering::orthogonalise(MuonBatch& batch) {
  if (batch.route == MuonRoute::gather_and_sum) return sum_of_all(batch);
  batch.update = newton_schulz(batch, batch.update);
  if (batch.route == MuonRoute::exchange)
    exchange_update(batch, Kernel::all_to_all, batch.shard, batch.shard_elements);
}

// Decay of the parameters, the update times the learning rate, and the one less the other.
void Lowering::apply(const MuonBatch& batch) {
  const BufferId update = batch.update;
  for_each_launch(batch, [&](std::span<UnitFlat* const> flats, std::int64_t elements) {
    std::vector<BufferId> parameters;
    for (const UnitFlat* flat : flats)
      parameters.push_back(build_.draft().flats[static_cast<std::size_t>(flat->flat)].parameter);
    pass(parameters, parameters, elements, 2 * wide);
    pass({&update, 1}, {&update, 1}, elements, 2 * narrow);
    pass({&update, 1}, parameters, elements, 2 * wide + narrow);
  });
}

// A batch that waits for nothing is done at once; of the others one begins, the one before it goes
// on, and the one before that ends.
void Lowering::update_by_muon() {
  std::vector<MuonBatch> batches = muon_batches();
  const auto is_last_step = [](const MuonBatch& batch, std::size_t step) {
    const bool returns =
        batch.route == MuonRoute::exchange || batch.route == MuonRoute::gather_and_sum;
    return step == (batch.route == MuonRoute::local ? 0u : returns ? 2u : 1u);
  };
  for (std::size_t i = 0; i < batches.size() + 2; ++i) {
    for (std::size_t step = 0; step < 3 && step <= i; ++step) {
      if (i - step >= batches.size()) continue;
      MuonBatch& batch = batches[i - step];
      const std::size_t orthogonal = batch.route == MuonRoute::local ? 0 : 1;
      if (step == 0) begin(batch);
      if (step == orthogonal) orthogonalise(batch);
      if (is_last_step(batch, step)) apply(batch);
    }
  }
}

}  // namespace xt

#include "executor/train/parameters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "executor/weights/elements.h"

namespace xt {
namespace {

constexpr double deviation = 0.02;

// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", OOPSLA
constexpr std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Numbers that depend on a seed, a name and a position alone, so that any part can be drawn.
class Draw {
 public:
  Draw(std::int64_t seed, std::string_view name)
      : key_(scrambled(static_cast<std::uint64_t>(seed))) {
    for (const char c : name) key_ = scrambled(key_ + static_cast<unsigned char>(c) + golden);
  }

  /// A normal number with mean 0 and deviation 1.
  ///
  /// Source: Box and Muller 1958, "A note on the generation of random normal deviates"
  double normal(std::int64_t position) const {
    const auto i = static_cast<std::uint64_t>(position);
    const double radius = std::sqrt(-2 * std::log(uniform(2 * i)));
    return radius * std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
  }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;

  /// In (0, 1].
  double uniform(std::uint64_t i) const {
    return static_cast<double>((scrambled(key_ + (i + 1) * golden) >> 11) + 1) * 0x1p-53;
  }

  std::uint64_t key_;
};

std::int64_t elements_of(const Placement& placement) {
  std::int64_t n = 1;
  for (std::int32_t d = 0; d < placement.n_dimensions; ++d)
    n *= placement.shape[static_cast<std::size_t>(d)];
  return n;
}

std::int32_t local_experts(const Schedule& schedule) {
  std::int32_t n = 0;
  for (const Placement& placement : schedule.placements) n = std::max(n, placement.expert + 1);
  return n;
}

/// A tensor of the published weights that a placement is of, and where in it its elements begin.
struct Published {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;
};

/// What `placement` is of on the rank of this index among those that share experts.
Published published(const Schedule& schedule, const Placement& placement, std::int32_t expert_rank,
                    std::int32_t experts) {
  Published result;
  const auto begin = placement.shape.begin();
  result.shape.assign(begin, begin + placement.n_dimensions);
  const std::int32_t expert = expert_rank * experts + placement.expert;
  if (placement.expert < 0) {
    result.name = placement.name;
  } else if (placement.is_stacked) {
    result.name = placement.name;
    result.shape.insert(result.shape.begin(), experts * schedule.group(Group::expert).size);
    result.first = expert * elements_of(placement);
  } else {
    result.name = fmt::format(fmt::runtime(placement.name), expert);
  }
  return result;
}

/// Calls `visit(placement, published tensor)` for each placement on each of the ranks that share
/// experts.
template <typename Visit>
void for_published(const Schedule& schedule, const Visit& visit) {
  const std::int32_t experts = local_experts(schedule);
  for (const Placement& placement : schedule.placements) {
    const std::int32_t n = placement.expert < 0 ? 1 : schedule.group(Group::expert).size;
    for (std::int32_t expert_rank = 0; expert_rank < n; ++expert_rank)
      visit(placement, published(schedule, placement, expert_rank, experts));
  }
}

at::Tensor elements_of(const Schedule& schedule, const BufferMemory& memory,
                       const Stretch& stretch) {
  const Flat& flat = schedule.flats[static_cast<std::size_t>(stretch.flat)];
  return memory.tensor(flat.parameter).view(-1).narrow(0, stretch.shard_offset, stretch.elements);
}

std::span<float> span_of(const at::Tensor& elements) {
  return {elements.mutable_data_ptr<float>(), static_cast<std::size_t>(elements.numel())};
}

/// Has `fill` write the elements of a stretch, where they are or in host memory from where they go
/// to their device.
template <typename Fill>
void fill_elements(const Schedule& schedule, const BufferMemory& memory, const Stretch& stretch,
                   const Fill& fill) {
  const at::Tensor elements = elements_of(schedule, memory, stretch);
  if (elements.device().is_cpu()) return fill(span_of(elements));
  const at::Tensor host = at::empty(elements.sizes(), at::kFloat);
  fill(span_of(host));
  elements.copy_(host);
}

}  // namespace

std::vector<Stretch> stretches_of(const Schedule& schedule, std::int32_t rank) {
  const std::int32_t experts = local_experts(schedule);
  const std::int32_t expert_rank = index_in_group(schedule.group(Group::expert), rank);
  std::vector<Stretch> stretches;
  for (const Placement& placement : schedule.placements) {
    const Flat& flat = schedule.flats[static_cast<std::size_t>(placement.flat)];
    const GroupShape& group = schedule.group(flat.group);
    const std::int64_t shard = flat.elements / group.size;
    const std::int64_t begin = shard * index_in_group(group, rank);
    const std::int64_t first = std::max(begin, placement.offset_elements);
    const std::int64_t last =
        std::min(begin + shard, placement.offset_elements + elements_of(placement));
    if (first >= last) continue;
    Published of = published(schedule, placement, expert_rank, experts);
    stretches.push_back({std::move(of.name), std::move(of.shape), &placement,
                         of.first + first - placement.offset_elements, last - first, placement.flat,
                         first - begin});
  }
  return stretches;
}

bool is_first_holder(const Schedule& schedule, const Flat& flat, std::int32_t rank) {
  if (flat.group == Group::none) return rank == 0;
  return index_in_group(schedule.group(Group::replica), rank) == 0;
}

void initialise_parameters(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                           std::int64_t seed) {
  for (const Stretch& stretch : stretches_of(schedule, rank)) {
    fill_elements(schedule, memory, stretch, [&](std::span<float> to) {
      if (stretch.placement->n_dimensions == 1) {
        std::fill(to.begin(), to.end(), stretch.name.ends_with("norm.weight") ? 1.0f : 0.0f);
        return;
      }
      const Draw draw(seed, stretch.name);
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<float>(deviation *
                                   draw.normal(stretch.first + static_cast<std::int64_t>(i)));
    });
  }
}

void load_parameters(const Schedule& schedule, BufferMemory& memory, std::int32_t rank,
                     const Weights& weights) {
  for (const Stretch& stretch : stretches_of(schedule, rank)) {
    const StoredTensor& stored = weights.at(stretch.name, stretch.shape);
    fill_elements(schedule, memory, stretch, [&](std::span<float> to) {
      decode(stored.bytes, stored.dtype, stretch.first, to);
    });
  }
}

void check_weights(const Schedule& schedule, const Weights& weights) {
  for_published(schedule, [&](const Placement&, const Published& of) {
    (void)weights.at(of.name, of.shape);
  });
}

std::vector<TensorSpec> published_tensors(const Schedule& schedule, DType dtype,
                                          const std::function<bool(const Placement&)>& is_wanted) {
  std::map<std::string, TensorSpec> tensors;
  for_published(schedule, [&](const Placement& placement, const Published& of) {
    if (is_wanted(placement))
      tensors[of.name] = {of.name, dtype, {of.shape.begin(), of.shape.end()}};
  });
  std::vector<TensorSpec> list;
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  return list;
}

void save_parameters(const Schedule& schedule, const BufferMemory& memory, std::int32_t rank,
                     WeightsFolder& folder) {
  for (const Stretch& stretch : stretches_of(schedule, rank)) {
    const Flat& flat = schedule.flats[static_cast<std::size_t>(stretch.flat)];
    if (!is_first_holder(schedule, flat, rank)) continue;
    folder.write(stretch.name, stretch.first,
                 span_of(elements_of(schedule, memory, stretch).cpu()));
  }
}

}  // namespace xt

#include "tests/conformance/random_schedule.h"

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

#include "costmodel/ir/schedule_builder.h"

namespace xt {
namespace {

struct Drawn {
  BufferId id;
  std::int64_t elements;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), build_("xt_run", 1) {}

  Schedule run() {
    part_ = build_.part("random");
    rows_ = build_.symbol(SymbolKind::rows_received, -1, 8);
    counts_ = build_.resident({{1, 1, 1}, DType::int64});
    for (int i = 0; i < 4; ++i) {
      const std::int64_t n = between(1, 64);
      residents_.push_back({build_.resident(spec(n)), n});
    }
    const std::int64_t n_sections = between(1, 4);
    for (std::int64_t i = 0; i < n_sections; ++i) section();
    return std::move(build_).finish();
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(std::int64_t percent) { return between(1, 100) <= percent; }

  Drawn pick(const std::vector<Drawn>& from) {
    return from[static_cast<std::size_t>(between(0, std::ssize(from) - 1))];
  }
  /// Anything that has been written.
  Drawn readable() { return written_.empty() || chance(30) ? pick(residents_) : pick(written_); }

  TensorSpec spec(Extent elements) {
    TensorSpec result{{elements, 1, 1}, DType::int32};
    result.category = static_cast<MemoryCategory>(between(0, 9));
    result.space = chance(20) ? Space::host : Space::device;
    if (chance(20)) result.lane = static_cast<Lane>(between(1, 6));
    return result;
  }

  OpId add(Kernel kernel, Lane lane, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    Work work{kernel, DType::int32, Group::world, {between(1, 64)}};
    work.extents[5] = between(0, 9);
    std::vector<WorkspaceSpec> workspaces;
    if (lane == Lane::compute && chance(30)) {
      work.extents[4] = between(1, 100);
      workspaces.push_back({{work.extents[4], 1, 1}});
    }
    std::vector<OpId> after;
    if (n_ops_ > 0 && chance(20))
      after.push_back(OpId(static_cast<std::uint32_t>(between(0, n_ops_ - 1))));
    ++n_ops_;
    return build_.add({work, lane, {Phase::forward, part_}, inputs, outputs, workspaces, after});
  }

  void produce() {
    const std::int64_t n = chance(10) && is_bound_ ? bound_rows : between(1, 64);
    const BufferId made = build_.transient(spec(n == bound_rows ? Extent::of(rows_) : Extent(n)));
    const Lane lane = static_cast<Lane>(between(1, 6));
    constexpr std::array<Kernel, 7> kernels = {Kernel::fill_zero,       Kernel::cast,
                                               Kernel::all_gather,      Kernel::reduce_scatter,
                                               Kernel::exchange_counts, Kernel::copy_to_host,
                                               Kernel::copy_to_device};
    const Kernel kernel =
        lane == Lane::compute ? Kernel::cast : kernels[static_cast<std::size_t>(lane)];
    add(kernel, lane, {readable().id}, {made});
    written_.push_back({made, n});
  }

  void change() {
    const Drawn target = readable();
    const Lane lane = static_cast<Lane>(between(1, 6));
    const Kernel kernel = lane == Lane::compute ? Kernel::add : Kernel::all_reduce;
    std::vector<BufferId> inputs;
    if (lane == Lane::compute) inputs = {readable().id, readable().id};
    add(kernel, lane, inputs, {part_of(target)});
  }

  /// The buffer, or a part of it.
  BufferId part_of(const Drawn& whole) {
    if (whole.elements < 2 || whole.elements == bound_rows || chance(50)) return whole.id;
    const std::int64_t first = between(0, whole.elements - 2);
    const std::int64_t n = between(1, whole.elements - first);
    return build_.view(whole.id, first * 4, {n, 1, 1}, DType::int32);
  }

  void bind() {
    add(Kernel::sort_rows, Lane::compute, {}, {counts_});
    const std::vector<BufferId> inputs{counts_};
    const Work work{Kernel::bind_rows, DType::int32, Group::none, {Extent::of(rows_)}};
    ++n_ops_;
    build_.add({work, Lane::host, {Phase::forward, part_}, inputs, {}, {}, {}});
    is_bound_ = true;
  }

  void section() {
    bind();
    const std::int64_t n_ops = between(3, 60);
    for (std::int64_t i = 0; i < n_ops; ++i) {
      if (chance(55)) {
        produce();
      } else {
        change();
      }
      if (!written_.empty() && chance(40))
        written_.erase(written_.begin() + between(0, std::ssize(written_) - 1));
      if (!written_.empty() && chance(10))
        build_.hold(pick(written_).id, OpId(static_cast<std::uint32_t>(build_.n_ops() - 1)));
    }
    written_.clear();
    build_.end_section(static_cast<std::int32_t>(between(1, 3)), {Phase::forward, part_});
    ++n_ops_;
  }

  std::mt19937_64 random_;
  ScheduleBuilder build_;
  std::uint8_t part_ = 0;
  SymbolId rows_{};
  BufferId counts_ = no_buffer;
  bool is_bound_ = false;
  std::int64_t n_ops_ = 0;
  std::vector<Drawn> residents_;
  std::vector<Drawn> written_;  ///< transients that may be read
};

}  // namespace

Schedule random_schedule(std::uint64_t seed) { return Generator(seed).run(); }

bool is_in_place(Kernel kernel) { return row(kernel).outputs.find('!') != std::string_view::npos; }

void mix_tags(std::uint32_t salt, std::span<const std::span<const std::uint32_t>> inputs,
              std::span<const std::span<std::uint32_t>> outputs, bool in_place) {
  std::uint32_t tag = salt;
  for (const auto& input : inputs)
    for (const std::uint32_t element : input) tag = mixed(tag, element);
  for (const auto& output : outputs)
    for (std::uint32_t& element : output) element = mixed(tag, in_place ? element : 0);
}

}  // namespace xt

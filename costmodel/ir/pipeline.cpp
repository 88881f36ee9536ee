#include "costmodel/ir/pipeline.h"

#include <algorithm>
#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/ir/chunk_copies.h"

namespace xt {
namespace {

void add(CategoryBytes& sum, const CategoryBytes& more, int sign) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += Bytes(sign * more[i].value);
}

Bytes total(const CategoryBytes& of) {
  Bytes sum;
  for (const Bytes bytes : of) sum += bytes;
  return sum;
}

// By section: what stands in `space` when it begins and is not resident. One more than sections.
std::vector<CategoryBytes> standing(const Schedule& schedule, const Bindings& bindings,
                                    Space space) {
  std::vector<CategoryBytes> result(schedule.sections.size() + 1);
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind != BufferKind::transient || buffer.space != space) continue;
    const std::size_t last = section_with(schedule, buffer.last_op);
    for (std::size_t s = section_with(schedule, buffer.first_op); s < last; ++s)
      result[s + 1][static_cast<std::size_t>(buffer.category)] += buffer.bytes(bindings);
  }
  return result;
}

// A walk through the sections of a stage in the order in which a step runs them.
class Walk {
 public:
  Walk(const Schedule& schedule, const Bindings& bindings, Space space)
      : schedule_(schedule),
        bindings_(bindings),
        space_(space),
        standing_(standing(schedule, bindings, space)),
        runs_(schedule.sections.size(), 0) {
    const std::vector<Bytes> curve = memory_curve(schedule, bindings, space);
    for (std::size_t s = 0; s < schedule.sections.size(); ++s) {
      const auto begin =
          curve.begin() + static_cast<std::ptrdiff_t>(at(schedule.sections[s].begin));
      const auto end = curve.begin() + static_cast<std::ptrdiff_t>(at(schedule.sections[s].end));
      const auto highest = std::max_element(begin, end);
      highest_.push_back(OpId(static_cast<std::uint32_t>(highest - curve.begin())));
      above_.push_back(*highest - total(standing_[s]));
    }
  }

  void run(std::size_t s) {
    const Bytes peak = above_[s] + total(live_);
    if (peak > peak_) {
      peak_ = peak;
      op_ = highest_[s];
      beside_ = live_;
      add(beside_, standing_[s], -1);
      runs_before_ = runs_;
    }
    ++runs_[s];
    add(live_, standing_[s + 1], 1);
    add(live_, standing_[s], -1);
  }

  StagePeak peak() const {
    if (op_ == no_op) return {};
    StagePeak result{memory_at(schedule_, bindings_, space_, op_), runs_before_};
    add(result.memory.by_category, beside_, 1);
    result.memory.peak += total(beside_);
    return result;
  }

 private:
  const Schedule& schedule_;
  const Bindings& bindings_;
  Space space_;
  std::vector<CategoryBytes> standing_;
  std::vector<OpId> highest_;  // by section
  std::vector<Bytes> above_;   // by section: of its highest op, without what stood there before
  CategoryBytes live_{};       // what is not resident, between sections
  CategoryBytes beside_{};     // at the peak: of other micro-batches than the schedule has there
  std::vector<std::int32_t> runs_;         // of each section until now
  std::vector<std::int32_t> runs_before_;  // the same, when that of the peak begins
  Bytes peak_{-1};
  OpId op_ = no_op;
};

}  // namespace

std::uint32_t section_of(const Stage& stage, const ChunkRun& run, std::int32_t micro_batches) {
  const ChunkSections& of = stage.chunks[static_cast<std::size_t>(run.chunk)];
  const bool is_last = run.micro_batch + 1 == micro_batches;
  if (run.of_weights) return is_last ? of.last_weights : of.weights;
  if (run.is_backward) return is_last ? of.last_backward : of.backward;
  return run.micro_batch == 0 ? of.first_forward : of.forward;
}

std::uint32_t section_of(const Stage& stage, std::span<const ChunkRun> at_once,
                         std::int32_t micro_batches) {
  if (at_once.size() == 1) return section_of(stage, at_once.front(), micro_batches);
  const auto found = std::ranges::find_if(stage.pairs, [&](const ChunkPair& pair) {
    return pair.forward == at_once[0].chunk && pair.backward == at_once[1].chunk;
  });
  XT_CHECK(found != stage.pairs.end(), at_once[0].chunk, at_once[1].chunk);
  return found->section;
}

std::vector<std::int32_t> section_runs(const Stage& stage, std::span<const ChunkRun> order,
                                       std::int32_t micro_batches) {
  std::vector<std::int32_t> runs(stage.schedule.sections.size(), 0);
  runs.front() = runs.back() = 1;
  for (std::size_t i = 0; i < order.size(); i += runs_at(order, i).size()) {
    const ChunkRun& run = order[i];
    const std::uint32_t section = section_of(stage, runs_at(order, i), micro_batches);
    ++runs[section];
    if (!stage.chunks[static_cast<std::size_t>(run.chunk)].offloads) continue;
    ++runs[run.is_backward ? section_in(section) : section_out(section)];
  }
  return runs;
}

StagePeak stage_peak(const Stage& stage, std::span<const ChunkRun> order,
                     std::int32_t micro_batches, const Bindings& bindings, Space space) {
  Walk walk(stage.schedule, bindings, space);
  const auto section = [&](const ChunkRun& run) { return section_of(stage, run, micro_batches); };
  const std::vector<PassCopies> copies = copies_of(stage, order);
  std::vector<ChunkRun> leaving;
  const auto leave = [&] {
    for (const ChunkRun& run : std::exchange(leaving, {})) walk.run(section_out(section(run)));
  };
  walk.run(0);
  for (std::size_t i = 0; i < order.size(); i += runs_at(order, i).size()) {
    if (copies[i].waits) leave();
    leaving.insert(leaving.end(), copies[i].out.begin(), copies[i].out.end());
    if (copies[i].in_follows_out) leave();
    if (copies[i].in) walk.run(section_in(section(*copies[i].in)));
    walk.run(section_of(stage, runs_at(order, i), micro_batches));
  }
  walk.run(stage.schedule.sections.size() - 1);
  return walk.peak();
}

}  // namespace xt

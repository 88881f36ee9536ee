#include "costmodel/sim/pipeline.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "costmodel/cost/demand.h"
#include "costmodel/diagnostics/check.h"
#include "costmodel/ir/chunk_copies.h"

namespace xt {
namespace {

// Two ranks as far apart as the farthest of the pairs that stages beginning at `a` and `b` make.
GroupShape farthest_pair(std::int64_t a, std::int64_t b, std::int64_t ranks,
                         const Profile& profile) {
  std::int64_t stride = std::abs(b - a);
  for (const std::int64_t unit : {std::int64_t{profile.ranks_per_device}, profile.ranks_per_node(),
                                  std::int64_t{profile.scale_up.domain_ranks}})
    for (std::int64_t i = 0; i < ranks; ++i)
      if ((a + i) / unit != (b + i) / unit) stride = std::max(stride, unit);
  return {2, static_cast<std::int32_t>(stride)};
}

class PipelineRun {
 public:
  PipelineRun(const PipelineSchedule& pipeline, const PipelineTimes& times)
      : pipeline_(pipeline),
        times_(times),
        n_stages_(pipeline.stages.size()),
        next_(n_stages_, 0),
        free_(n_stages_),
        background_(n_stages_),
        copied_(n_stages_),
        links_{std::vector<Instant>(n_stages_), std::vector<Instant>(n_stages_)} {
    n_parts_ = n_stages_ * pipeline.stage(0).chunks.size();
    const std::size_t n = n_parts_ * static_cast<std::size_t>(pipeline.micro_batches);
    for (auto& arrivals : arrivals_) arrivals.resize(n);
    for (std::size_t place = 0; place < n_stages_; ++place)
      copies_.push_back(copies_of(pipeline.stage(place), pipeline.orders[place]));
  }

  PipelineTimeline run() {
    const Duration opening = longest([](const Stage&) { return std::size_t{0}; });
    free_.assign(n_stages_, Instant{} + opening);
    timeline_.stages.resize(n_stages_);
    std::vector<std::size_t> ready(n_stages_);
    for (std::size_t place = 0; place < n_stages_; ++place) ready[place] = place;
    while (!ready.empty()) {
      const std::size_t place = ready.back();
      ready.pop_back();
      while (step(place, ready)) {
      }
    }
    for (std::size_t place = 0; place < n_stages_; ++place)
      XT_CHECK(next_[place] == pipeline_.orders[place].size(), place, next_[place]);
    const Duration update =
        longest([](const Stage& stage) { return stage.schedule.sections.size() - 1; });
    for (std::size_t place = 0; place < n_stages_; ++place) {
      const Instant end = std::max(free_[place], background_[place]);
      timeline_.tails.push_back(end - free_[place]);
      timeline_.end = std::max(timeline_.end, end + update);
    }
    return std::move(timeline_);
  }

 private:
  template <typename SectionOf>
  Duration longest(SectionOf section_of_stage) const {
    Duration result{};
    for (std::size_t i = 0; i < pipeline_.distinct.size(); ++i)
      result =
          std::max(result, times_.sections[i][section_of_stage(pipeline_.distinct[i])].drained);
    return result;
  }

  // Which part of the model a chunk is.
  std::size_t part(std::size_t place, const ChunkRun& run) const {
    return static_cast<std::size_t>(run.chunk) * n_stages_ + place;
  }
  std::optional<Instant>& arrival(std::size_t part, const ChunkRun& run) {
    const std::size_t i = static_cast<std::size_t>(run.micro_batch) * n_parts_ + part;
    return arrivals_[run.is_backward ? 1 : 0][i];
  }
  bool needs_nothing(std::size_t part, const ChunkRun& run) const {
    return run.is_backward ? part + 1 == n_parts_ : part == 0;
  }

  std::uint32_t section(std::size_t place, const ChunkRun& run) const {
    return section_of(pipeline_.stage(place), run, pipeline_.micro_batches);
  }
  const SectionTime& times(std::size_t place, std::uint32_t section) const {
    return times_.sections[pipeline_.stages[place]][section];
  }
  Duration time_of(std::size_t place, const PassCopies& copies) const {
    Duration out{}, in{};
    for (const ChunkRun& run : copies.out)
      out += times(place, section_out(section(place, run))).drained;
    if (copies.in) in = times(place, section_in(section(place, *copies.in))).drained;
    return copies.in_follows_out ? out + in : std::max(out, in);
  }

  // When a run has what it needs from another stage; nothing where that is not known yet.
  std::optional<Instant> arrived(std::size_t place, const ChunkRun& run) {
    const std::size_t of = part(place, run);
    return run.of_weights || needs_nothing(of, run) ? Instant{} : arrival(of, run);
  }

  // Runs what is next at `place` if all that it needs is known to arrive; adds the places that wait
  // for what it makes.
  bool step(std::size_t place, std::vector<std::size_t>& woken) {
    const std::span<const ChunkRun> order = pipeline_.orders[place];
    const std::size_t i = next_[place];
    if (i == order.size()) return false;
    const std::span<const ChunkRun> at_once = runs_at(order, i);
    Instant start = free_[place];
    for (const ChunkRun& run : at_once) {
      const std::optional<Instant> arrival = arrived(place, run);
      if (!arrival) return false;
      start = std::max(start, *arrival);
    }
    next_[place] += at_once.size();
    const PassCopies& copies = copies_[place][i];
    if (copies.waits) {
      start = std::max(start, copied_[place]);
      copied_[place] = start + time_of(place, copies);
    }
    const SectionTime& time =
        times(place, section_of(pipeline_.stage(place), at_once, pipeline_.micro_batches));
    free_[place] = start + time.computed;
    if (time.in_background > Duration{})
      background_[place] = std::max(start + time.drained, background_[place] + time.in_background);
    timeline_.stages[place].push_back({at_once.front(), start, free_[place]});
    for (const ChunkRun& run : at_once) send(place, run, woken);
    return true;
  }

  // To who has the next part in this direction, if somebody has.
  void send(std::size_t place, const ChunkRun& run, std::vector<std::size_t>& woken) {
    const std::size_t of = part(place, run);
    if (run.of_weights || (run.is_backward ? of == 0 : of + 1 == n_parts_)) return;
    const std::size_t to = run.is_backward ? of - 1 : of + 1;
    const std::size_t receiver = to % n_stages_;
    Instant& link = links_[run.is_backward ? 1 : 0][place];
    link = std::max(link, free_[place]) + times_.transfers[run.is_backward ? receiver : place];
    arrival(to, run) = link;
    if (receiver != place) woken.push_back(receiver);
  }

  const PipelineSchedule& pipeline_;
  const PipelineTimes& times_;
  std::size_t n_stages_;
  std::size_t n_parts_ = 0;
  std::vector<std::size_t> next_;
  std::vector<Instant> free_;
  std::vector<std::vector<PassCopies>> copies_;  // by place and pass
  std::vector<Instant> background_;              // when gathers and reductions are done
  std::vector<Instant> copied_;                  // when copies between host and device are done
  std::array<std::vector<Instant>, 2> links_;    // forward and back, by sender
  std::array<std::vector<std::optional<Instant>>, 2> arrivals_;  // by micro-batch and part
  PipelineTimeline timeline_;
};

}  // namespace

std::vector<SectionTime> section_times(const Schedule& schedule, const Timeline& timeline) {
  XT_CHECK(timeline.events.size() == schedule.ops.size());
  std::vector<SectionTime> times;
  Instant start{};
  for (const Section& section : schedule.sections) {
    SectionTime time;
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const Event& event = timeline.events[i];
      const Lane lane = schedule.op(event.op).lane;
      const bool is_swap = lane == Lane::swap_out || lane == Lane::swap_in;
      time.drained = std::max(time.drained, event.end - start);
      if (lane == Lane::all_gather || lane == Lane::reduce_scatter) {
        time.in_background += event.end - event.start;
      } else if (!is_swap && i + 1 < at(section.end)) {  // the last op waits for all lanes
        time.computed = std::max(time.computed, event.end - start);
      }
    }
    times.push_back(time);
    start += time.drained;
  }
  return times;
}

std::vector<Duration> transfer_times(const PipelineSchedule& pipeline, const Profile& profile) {
  std::vector<Duration> times;
  const auto n = static_cast<std::int64_t>(pipeline.stages.size());
  for (std::int64_t place = 0; place < n; ++place) {
    const GroupShape pair =
        farthest_pair(place * pipeline.stage_ranks, (place + 1) % n * pipeline.stage_ranks,
                      pipeline.stage_ranks, profile);
    times.push_back(quantize(alone(demand(pipeline.transfer, {}, pair, profile))));
  }
  return times;
}

PipelineTimeline simulate(const PipelineSchedule& pipeline, const PipelineTimes& times) {
  return PipelineRun(pipeline, times).run();
}

}  // namespace xt

// Source: Trace Event Format, Google 2016: complete events (`ph` X), metadata (M), flows (s, t, f)

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "planner/compare/compare.h"

namespace xt {
namespace {

constexpr std::int64_t predicted_process = 0;
/// Behind those of lanes: whole steps.
constexpr auto step_thread = static_cast<std::int64_t>(n_lanes);

constexpr const char* clock_text =
    "rank 0's steady clock, from the earliest recorded step on. Ranks of one host share that "
    "clock; between hosts a rank's is moved by its distance from rank 0's, estimated before the "
    "first step from rounds of messages (Cristian 1989) and taken not to drift";

double microseconds(Duration duration) { return static_cast<double>(duration.count()) * 1e-3; }

class Trace {
 public:
  explicit Trace(const MeasuredPlan& plan) : plan_(plan), origin_(start(0)) {
    for (std::size_t i = 1; i < plan.measured.size(); ++i) origin_ = std::min(origin_, start(i));
  }

  Json document() {
    name_process(predicted_process, "predicted");
    Duration predicted_end{};
    std::set<std::int32_t> ranks;
    for (std::size_t i = 0; i < plan_.measured.size(); ++i) {
      const Timeline& timeline = plan_.measured[i];
      if (ranks.insert(timeline.rank).second)
        name_process(process_of(timeline), fmt::format("rank {}", timeline.rank));
      add(timeline, process_of(timeline), start(i), fmt::format("step {}", timeline.step));
      // Beside each step, unless the prediction of the one before is still going on.
      if (plan_.step_starts[i] < predicted_end) continue;
      add(plan_.predicted, predicted_process, plan_.step_starts[i], "step, predicted");
      predicted_end = plan_.step_starts[i] + std::max(makespan(plan_.predicted), Duration(1));
    }
    link_ranks();
    return Json::object({{"displayTimeUnit", "ms"},
                         {"otherData", Json::object({{"clock", clock_text}})},
                         {"traceEvents", std::move(events_)}});
  }

 private:
  static std::int64_t process_of(const Timeline& timeline) { return timeline.rank + 1; }

  /// When timeline `i` began, on rank 0's clock.
  [[nodiscard]] Duration start(std::size_t i) const {
    return plan_.step_starts[i] + plan_.clock_offsets[i];
  }
  [[nodiscard]] double time(Duration start, Instant instant) const {
    return microseconds(start - origin_ + (instant - Instant{}));
  }

  void name(std::string_view kind, std::int64_t process, std::int64_t thread,
            std::string_view text) {
    events_.push_back(Json::object({{"ph", "M"},
                                    {"name", kind},
                                    {"pid", process},
                                    {"tid", thread},
                                    {"args", Json::object({{"name", text}})}}));
  }

  void name_process(std::int64_t process, std::string_view title) {
    name("process_name", process, 0, title);
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      name("thread_name", process, static_cast<std::int64_t>(lane), lane_names[lane]);
    name("thread_name", process, step_thread, "steps");
  }

  void add_slice(std::string_view name, std::string_view category, std::int64_t process,
                 std::int64_t thread, double begin, Duration length, Json args) {
    events_.push_back(Json::object({{"ph", "X"},
                                    {"name", name},
                                    {"cat", category},
                                    {"pid", process},
                                    {"tid", thread},
                                    {"ts", begin},
                                    {"dur", microseconds(length)},
                                    {"args", std::move(args)}}));
  }

  void add(const Timeline& timeline, std::int64_t process, Duration start, std::string_view title) {
    add_slice(title, "step", process, step_thread, time(start, Instant{}), makespan(timeline),
              Json::object({{"peak_memory_bytes", timeline.device_memory.peak.value}}));
    for (const Event& event : timeline.events) {
      const Op& op = plan_.schedule.op(event.op);
      Json args = Json::object({{"op", at(event.op)}, {"repeat", event.repeat}});
      if (op.origin.layer >= 0) args.add("layer", op.origin.layer);
      if (op.origin.chunk >= 0)
        args.add(op.origin.layer >= 0 ? "micro_batch" : "chunk", op.origin.chunk);
      add_slice(op_name(plan_.schedule, event.op),
                phase_names[static_cast<std::size_t>(op.origin.phase)], process,
                static_cast<std::int64_t>(op.lane), time(start, event.start),
                event.end - event.start, std::move(args));
    }
  }

  /// A rank's arrival at a collective.
  struct Arrival {
    double time = 0;
    std::int64_t process = 0;
    std::int64_t thread = 0;
  };

  void link_ranks() {
    // Step, group, and position among the step's events.
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::size_t>,
             std::vector<Arrival>>
        arrivals;
    for (std::size_t i = 0; i < plan_.measured.size(); ++i) {
      const Timeline& timeline = plan_.measured[i];
      for (std::size_t e = 0; e < timeline.events.size(); ++e) {
        const Event& event = timeline.events[e];
        const Op& op = plan_.schedule.op(event.op);
        const Work& work = plan_.schedule.work(op);
        if (kernel_class(work.kernel) != KernelClass::collective) continue;
        const auto [block, place] = group_of(plan_.schedule.group(work.group), timeline.rank);
        arrivals[{timeline.step, block, place, e}].push_back({time(start(i), event.start),
                                                              process_of(timeline),
                                                              static_cast<std::int64_t>(op.lane)});
      }
    }
    std::int64_t id = 0;
    for (auto& [key, of_group] : arrivals)
      if (of_group.size() > 1) link(std::move(of_group), ++id);
  }

  void link(std::vector<Arrival> arrivals, std::int64_t id) {
    std::ranges::stable_sort(arrivals, {}, &Arrival::time);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const char* kind = i == 0 ? "s" : i + 1 < arrivals.size() ? "t" : "f";
      events_.push_back(Json::object({{"ph", kind},
                                      {"bp", "e"},
                                      {"name", "arrivals"},
                                      {"cat", "collective"},
                                      {"id", id},
                                      {"pid", arrivals[i].process},
                                      {"tid", arrivals[i].thread},
                                      {"ts", arrivals[i].time}}));
    }
  }

  const MeasuredPlan& plan_;
  Duration origin_;
  Json events_ = Json::array();
};

}  // namespace

Json chrome_trace(const MeasuredPlan& plan) { return Trace(plan).document(); }

}  // namespace xt

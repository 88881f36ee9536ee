#include "tests/conformance/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace xt {
namespace {

class Judge {
 public:
  Judge(const Schedule& schedule, const Timeline& timeline)
      : schedule_(schedule), timeline_(timeline) {}

  std::vector<std::string> run() {
    std::size_t first = 0;
    for (const Section& section : schedule_.sections) {
      const std::size_t size = at(section.end) - at(section.begin);
      for (std::int32_t repeat = 0; repeat < section.repeat; ++repeat, first += size)
        if (!judge(section, repeat, first)) return std::move(broken_);
    }
    if (first != timeline_.events.size())
      broken_.push_back(fmt::format("{} events for {} ops", timeline_.events.size(), first));
    if (timeline_.end < section_end_) broken_.push_back("the step ends before its last op");
    return std::move(broken_);
  }

 private:
  struct Uses {
    Instant written;  ///< the latest end of a writer
    Instant used;     ///< the latest end of any user
  };

  bool judge(const Section& section, std::int32_t repeat, std::size_t first) {
    const Instant begin = section_end_;
    std::array<Instant, n_lanes> lanes;
    lanes.fill(begin);
    for (std::size_t i = at(section.begin); i < at(section.end); ++i) {
      const std::size_t position = first + i - at(section.begin);
      const OpId id{static_cast<std::uint32_t>(i)};
      if (position >= timeline_.events.size() || timeline_.events[position].op != id ||
          timeline_.events[position].repeat != repeat) {
        broken_.push_back(
            fmt::format("event {} is not op {} of repetition {}", position, i, repeat));
        return false;
      }
      const Event& event = timeline_.events[position];
      Instant& lane = lanes[static_cast<std::size_t>(schedule_.op(id).lane)];
      expect(event.start >= lane, event, "starts before its lane is free, or before its section");
      expect(event.end >= event.start, event, "ends before it starts");
      lane = std::max(lane, event.end);
      section_end_ = std::max(section_end_, event.end);
      judge_dependencies(event, section, first);
      judge_operands(event);
    }
    return true;
  }

  void judge_dependencies(const Event& event, const Section& section, std::size_t first) {
    for (const OpId id : schedule_.dependencies_of(schedule_.op(event.op))) {
      if (at(id) < at(section.begin)) continue;
      const Event& dependency = timeline_.events[first + at(id) - at(section.begin)];
      expect(event.start >= dependency.end, event, "starts before a dependency has ended");
    }
  }

  void judge_operands(const Event& event) {
    const Op& op = schedule_.op(event.op);
    for (const BufferId id : schedule_.inputs(op))
      expect(event.start >= uses_[storage(schedule_, id)].written, event,
             "reads what is not written yet");
    for (const BufferId id : schedule_.outputs(op))
      expect(event.start >= uses_[storage(schedule_, id)].used, event,
             "writes what is still in use");
    for (const BufferId id : schedule_.operands_of(op)) {
      Uses& uses = uses_[storage(schedule_, id)];
      uses.used = std::max(uses.used, event.end);
    }
    for (const BufferId id : schedule_.outputs(op)) {
      Uses& uses = uses_[storage(schedule_, id)];
      uses.written = std::max(uses.written, event.end);
    }
    for (const BufferId id : schedule_.ended_by(op))
      expect(uses_[id].used <= event.end, event, "ends a buffer that is still in use");
  }

  void expect(bool holds, const Event& event, const char* breach) {
    if (!holds)
      broken_.push_back(fmt::format("op {} ({}) of repetition {} {}", at(event.op),
                                    op_name(schedule_, event.op), event.repeat, breach));
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  std::map<BufferId, Uses> uses_;
  Instant section_end_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_rules(const Schedule& schedule, const Timeline& timeline) {
  return Judge(schedule, timeline).run();
}

}  // namespace xt

#include "costmodel/ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xt {
namespace {

using Clock = std::array<std::uint32_t, n_lanes>;

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

class Verifier {
 public:
  explicit Verifier(const Schedule& schedule) : schedule_(schedule) {}

  std::vector<std::string> run() {
    if (!ranges_hold()) return std::move(problems_);
    walk_clocks();
    check_reads();
    check_ends();
    check_sections();
    return std::move(problems_);
  }

 private:
  template <typename... Values>
  void problem(fmt::format_string<Values...> text, Values&&... values) {
    problems_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  std::string op_text(std::size_t i) const {
    return fmt::format("op {} ({})", i, op_name(schedule_, OpId(static_cast<std::uint32_t>(i))));
  }

  // Positions of everything must lie inside their arrays before anything else can be read.
  bool ranges_hold() {
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const Op& op = schedule_.ops[i];
      const bool holds =
          at(op.work) < schedule_.works.size() && op.origin.part < schedule_.parts.size() &&
          op.first_operand + op.n_inputs + op.n_outputs <= schedule_.operands.size() &&
          op.first_dependency + op.n_dependencies <= schedule_.dependencies.size() &&
          op.first_ended + op.n_ended <= schedule_.ended.size();
      if (!holds) problem("op {} points outside the schedule's arrays", i);
    }
    for (const BufferId id : schedule_.operands)
      if (at(id) >= schedule_.buffers.size())
        problem("an operand names buffer {}, which does not exist", at(id));
    for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) check_buffer_range(i);
    return problems_.empty();
  }

  void check_buffer_range(std::size_t i) {
    const Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind == BufferKind::view && at(buffer.parent) >= i)
      problem("view {} does not follow its parent", i);
    const bool has_span =
        buffer.kind == BufferKind::transient || buffer.kind == BufferKind::workspace;
    if (has_span &&
        (at(buffer.first_op) >= schedule_.ops.size() || at(buffer.last_op) >= schedule_.ops.size()))
      problem("buffer {} begins or ends outside the schedule", i);
  }

  void walk_clocks() {
    std::array<Clock, n_lanes> lanes{};
    clocks_.resize(schedule_.ops.size());
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const Op& op = schedule_.ops[i];
      Clock clock = lanes[index(op.lane)];
      merge(clock, lanes[index(Lane::host)]);
      for (const OpId dependency : schedule_.dependencies_of(op)) {
        if (at(dependency) >= i) {
          problem("{} depends on op {}, which is not before it", op_text(i), at(dependency));
          continue;
        }
        merge(clock, clocks_[at(dependency)]);
      }
      clock[index(op.lane)] = static_cast<std::uint32_t>(i) + 1;
      lanes[index(op.lane)] = clocks_[i] = clock;
    }
  }

  static void merge(Clock& into, const Clock& from) {
    for (std::size_t lane = 0; lane < n_lanes; ++lane)
      into[lane] = std::max(into[lane], from[lane]);
  }

  bool knows(std::size_t op, std::size_t earlier) const {
    return clocks_[op][index(schedule_.ops[earlier].lane)] >= earlier + 1;
  }

  void check_reads() {
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const Op& op = schedule_.ops[i];
      for (const BufferId id : schedule_.inputs(op)) check_use(i, id, true);
      for (const BufferId id : schedule_.outputs(op)) check_use(i, id, false);
    }
  }

  void check_use(std::size_t i, BufferId id, bool is_read) {
    const BufferId root = storage(schedule_, id);
    const Buffer& buffer = schedule_.buffer(root);
    if (buffer.kind == BufferKind::resident) return;
    const std::size_t first = at(buffer.first_op);
    if (i < first || i > at(buffer.last_op)) {
      problem("{} uses buffer {} outside its life", op_text(i), at(root));
    } else if (is_read && (i == first || !knows(i, first))) {
      problem("{} reads buffer {} before it is known to be written", op_text(i), at(root));
    }
  }

  void check_ends() {
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const Op& op = schedule_.ops[i];
      for (const BufferId id : schedule_.operands_of(op)) {
        const Buffer& buffer = schedule_.buffer(storage(schedule_, id));
        if (buffer.kind != BufferKind::transient || at(buffer.last_op) >= schedule_.ops.size())
          continue;
        const std::size_t last = at(buffer.last_op);
        if (last >= i && !knows(last, i))
          problem("{} may still run when op {} ends a buffer it uses", op_text(i), last);
      }
      for (const BufferId id : schedule_.ended_by(op)) check_end(i, id);
    }
  }

  void check_end(std::size_t i, BufferId id) {
    const Buffer& buffer = schedule_.buffer(id);
    const Lane lane = schedule_.ops[i].lane;
    if (at(buffer.last_op) != i)
      problem("{} ends buffer {}, which names another op", op_text(i), at(id));
    if (lane != buffer.lane && lane != Lane::host)
      problem("{} ends buffer {} of another lane", op_text(i), at(id));
  }

  void check_sections() {
    std::size_t next = 0;
    for (const Section& section : schedule_.sections) {
      if (at(section.begin) != next || at(section.end) <= next)
        problem("section at op {} does not follow the one before it", at(section.begin));
      next = at(section.end);
      if (section.repeat < 1)
        problem("section at op {} repeats {} times", at(section.begin), section.repeat);
      if (section.repeat > 1) check_neutral(section);
    }
    if (next != schedule_.ops.size())
      problem("sections cover {} of {} ops", next, schedule_.ops.size());
  }

  // What one run hands to the next takes the place of what it was handed.
  void check_neutral(const Section& section) {
    const auto inside = [&](OpId op) {
      return at(op) >= at(section.begin) && at(op) < at(section.end);
    };
    const Bindings bindings = assumed_bindings(schedule_);
    std::vector<std::size_t> crossing;
    std::array<Bytes, 2> left{};  // by space
    for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      if (buffer.kind != BufferKind::transient || inside(buffer.first_op) == inside(buffer.last_op))
        continue;
      crossing.push_back(i);
      const Bytes bytes = buffer.bytes(bindings);
      left[static_cast<std::size_t>(buffer.space)] += inside(buffer.first_op) ? bytes : -bytes;
    }
    if (left == std::array<Bytes, 2>{}) return;
    for (const std::size_t i : crossing)
      problem("buffer {} begins or ends inside a section that repeats, but not both", i);
  }

  const Schedule& schedule_;
  std::vector<std::string> problems_;
  std::vector<Clock> clocks_;
};

}  // namespace

std::vector<std::string> verify(const Schedule& schedule) { return Verifier(schedule).run(); }

}  // namespace xt

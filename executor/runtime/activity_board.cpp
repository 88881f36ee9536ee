#include "executor/runtime/activity_board.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
                  std::atomic<OpId>::is_always_lock_free,
              "processes share no locks");

/// A rank's place; two ranks share no cache line.
struct alignas(64) Place {
  StepActivity activity;
};

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

std::size_t bytes_of(int n_ranks) { return static_cast<std::size_t>(n_ranks) * sizeof(Place); }

}  // namespace

ActivityBoard::ActivityBoard(int n_ranks)
    : n_ranks_(n_ranks), descriptor_(memfd_create("xt-run-activity", 0)) {
  if (descriptor_ < 0) fail("cannot make memory to share with ranks");
  if (ftruncate(descriptor_, static_cast<off_t>(bytes_of(n_ranks))) != 0)
    fail("cannot make memory to share with ranks");
  map();
  for (int rank = 0; rank < n_ranks; ++rank) new (static_cast<Place*>(start_) + rank) Place;
}

ActivityBoard::ActivityBoard(int n_ranks, int descriptor)
    : n_ranks_(n_ranks), descriptor_(descriptor) {
  map();
}

ActivityBoard::~ActivityBoard() {
  munmap(start_, bytes_of(n_ranks_));
  close(descriptor_);
}

void ActivityBoard::map() {
  start_ = mmap(nullptr, bytes_of(n_ranks_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (start_ == MAP_FAILED) fail("cannot map memory shared with the launcher");
}

StepActivity& ActivityBoard::of(int local_rank) const {
  XT_CHECK(local_rank >= 0 && local_rank < n_ranks_, local_rank, n_ranks_);
  return (static_cast<Place*>(start_) + local_rank)->activity;
}

std::string describe(const StepActivity& activity, const Schedule& schedule) {
  std::string ops;
  for (std::size_t lane = 0; lane < n_lanes; ++lane) {
    const OpId op = activity.running[lane];
    if (op == no_op || at(op) >= schedule.ops.size()) continue;
    ops += fmt::format("{}`{}` on lane {}", ops.empty() ? "" : ", ", op_name(schedule, op),
                       lane_names[lane]);
  }
  return fmt::format("step {}, {}", activity.step.load(), ops.empty() ? "between ops" : ops);
}

}  // namespace xt

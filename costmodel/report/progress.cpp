#include "costmodel/report/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>
#include <string_view>
#include <utility>

#include "costmodel/units/format.h"

namespace xt {
namespace {

constexpr Seconds silence(1.0);          // work shorter than this shows nothing
constexpr Seconds between_updates(0.1);  // faster than this cannot be read
constexpr std::string_view erase_line = "\r\x1b[K";

}  // namespace

Clock steady_clock() {
  return [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return Seconds(std::chrono::duration<double>(now).count());
  };
}

Progress::Progress(std::ostream& out, bool is_shown, std::string doing, std::int64_t total,
                   Clock clock)
    : out_(out),
      is_shown_(is_shown),
      doing_(std::move(doing)),
      total_(total),
      clock_(std::move(clock)),
      began_(clock_()),
      last_written_(began_) {}

Progress::~Progress() {
  if (is_written_) out_ << erase_line << std::flush;
}

void Progress::update(std::int64_t done) {
  if (!is_shown_) return;
  const Seconds now = clock_();
  const Seconds elapsed = now - began_;
  if (elapsed < silence || (is_written_ && now - last_written_ < between_updates)) return;
  std::string left;
  if (done > 0) {
    const double ratio = static_cast<double>(total_ - done) / static_cast<double>(done);
    left = fmt::format(", {} left", format(elapsed * ratio));
  }
  out_ << fmt::format("{}{} {} of {}{}", erase_line, doing_, done, total_, left) << std::flush;
  is_written_ = true;
  last_written_ = now;
}

}  // namespace xt

#pragma once

// A line that says what is being done and for how much longer. It appears late, only on a
// terminal, and leaves no trace.

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "costmodel/units/quantity.h"

namespace xt {

/// Tells the time since some fixed moment.
using Clock = std::function<Seconds()>;

/// The machine's steady clock.
Clock steady_clock();

/// The progress of one piece of work; erases itself at its end.
class Progress {
 public:
  /// `doing` completes "… 12 of 400, 3 s left"; nothing is ever written when `is_shown` is false.
  Progress(std::ostream& out, bool is_shown, std::string doing, std::int64_t total,
           Clock clock = steady_clock());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done.
  void update(std::int64_t done);

 private:
  std::ostream& out_;
  bool is_shown_;
  std::string doing_;
  std::int64_t total_;
  Clock clock_;
  Seconds began_;
  Seconds last_written_;
  bool is_written_ = false;
};

}  // namespace xt

#pragma once

// What a program's exit status says, the same for every command.

namespace xt {

/// Yes and no are answers; the other two mean there is none.
enum class ExitCode : int {
  yes = 0,        // the answer is yes, or the work is done
  no = 1,         // it does not fit, nothing is feasible, outside tolerance
  bad_input = 2,  // could not answer: the input is wrong or the device is missing
  failed = 3,     // was running and failed: a peer died, the disk is full
};

/// The status to return from `main`.
constexpr int status(ExitCode code) { return static_cast<int>(code); }

}  // namespace xt

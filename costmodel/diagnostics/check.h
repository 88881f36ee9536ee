#pragma once

// XT_CHECK: a broken invariant of ours stops the program, with the values that broke it.
// Never reachable by user input; bad input is a Diagnostic.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace xt {

/// Prints the failed expression with its values and aborts.
template <typename... Values>
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const Values&... values) {
  std::string text;
  ((text += fmt::format(" {}", values)), ...);
  std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, expression,
               text.empty() ? "" : " with", text.c_str());
  std::abort();
}

}  // namespace xt

#define XT_CHECK(condition, ...)                                                     \
  do {                                                                               \
    if (!(condition))                                                                \
      ::xt::check_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

#pragma once

// Independent pieces of work on several cores.

#include <atomic>
#include <cstddef>
#include <future>
#include <vector>

namespace xt {

/// `work(i)` for every i below `n`, on `n_threads` threads of which the caller is one; after each
/// of its own pieces the caller runs `tell(n_begun)`.
///
/// Throws: what the first piece of work that fails throws, when all others have ended
template <typename Work, typename Tell>
void in_parallel(std::size_t n, std::size_t n_threads, Work work, Tell tell) {
  std::atomic<std::size_t> next = 0;
  const auto share = [&] {
    for (std::size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < n_threads && i < n; ++i)
    others.push_back(std::async(std::launch::async, share));
  for (std::size_t i = next++; i < n; i = next++) {
    work(i);
    tell(i + 1);
  }
  for (std::future<void>& other : others) other.get();
}

/// The same, untold.
template <typename Work>
void in_parallel(std::size_t n, std::size_t n_threads, Work work) {
  in_parallel(n, n_threads, work, [](std::size_t) {});
}

}  // namespace xt

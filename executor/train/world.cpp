#include "executor/train/world.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

namespace xt {
namespace {

std::int64_t now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace

// Tensors over memory of ours: whoever keeps a handle of one, no memory of a step's peak is kept.
std::vector<std::int64_t> World::gather(std::span<const std::int64_t> own) {
  std::vector<std::int64_t> sent(own.begin(), own.end());
  std::vector<std::int64_t> received(own.size() * static_cast<std::size_t>(size()));
  const auto tensor = [](std::vector<std::int64_t>& of) {
    return at::from_blob(of.data(), {std::ssize(of)}, at::TensorOptions().dtype(at::kLong));
  };
  all_->all_gather(tensor(received), tensor(sent))->wait();
  return received;
}

Duration World::clock_skew(bool is_one_host) {
  if (is_one_host) return {};
  constexpr std::size_t n_rounds = 16;
  std::vector<std::int64_t> own;  // before and after each round
  for (std::size_t round = 0; round < n_rounds; ++round) {
    own.push_back(now());
    (void)gather(std::span<const std::int64_t>(own).last(1));
    own.push_back(now());
  }
  const std::vector<std::int64_t> first = gather(own);  // begins with rank 0's
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < own.size(); i += 2) {
    most = std::min(most, own[i + 1] - first[i]);
    least = std::max(least, own[i] - first[i + 1]);
  }
  return Duration(least + (most - least) / 2);
}

void World::wait() {
  const std::array<std::int64_t, 1> here{0};
  (void)gather(here);
}

}  // namespace xt

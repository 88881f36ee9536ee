#include "executor/measure/session.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "costmodel/diagnostics/check.h"

namespace xt {
namespace {

std::vector<int> all_ranks(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Session::Session(const RankEnvironment& place, BenchDevice device)
    : rendezvous_(place),
      network_(rendezvous_),
      world_(network_.group("measure", all_ranks(place.world_size))),
      bench_(std::move(device)),
      device_network_(bench_.device().network(rendezvous_)) {}

std::unique_ptr<Communicator> Session::group(const std::string& name, int size) {
  XT_CHECK(size > 0 && n_ranks() % size == 0, size, n_ranks());
  Network& network = device_network_ ? *device_network_ : network_;
  return network.group(name, group_members(rank(), size, 1));
}

double Session::agreed(double of_rank_0) {
  const at::Tensor value = at::full({1}, of_rank_0, at::kDouble);
  world_->broadcast(value, 0)->wait();
  return *value.const_data_ptr<double>();
}

std::vector<double> Session::gathered(std::span<const double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  const at::Tensor own = at::empty({n}, at::kDouble);
  const at::Tensor all = at::empty({n * n_ranks()}, at::kDouble);
  std::ranges::copy(values, own.mutable_data_ptr<double>());
  world_->all_gather(all, own)->wait();
  const double* first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

void Session::gather(std::span<Samples> all) {
  std::vector<double> own;
  for (const Samples& samples : all)
    own.insert(own.end(), samples.values.begin(), samples.values.end());
  const std::vector<double> values = gathered(own);
  std::size_t first = 0;
  for (Samples& samples : all) {
    const std::size_t n = samples.values.size();
    samples.values.clear();
    for (std::size_t begin = first; begin < values.size(); begin += own.size())
      samples.values.insert(samples.values.end(),
                            values.begin() + static_cast<std::ptrdiff_t>(begin),
                            values.begin() + static_cast<std::ptrdiff_t>(begin + n));
    first += n;
  }
}

}  // namespace xt

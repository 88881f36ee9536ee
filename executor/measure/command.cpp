#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"
#include "costmodel/units/format.h"
#include "executor/launch/launcher.h"
#include "executor/launch/threads.h"
#include "executor/measure/issue_times.h"
#include "executor/measure/kernel_times.h"
#include "executor/measure/machine.h"
#include "executor/measure/measure.h"
#include "executor/measure/overlap.h"
#include "executor/measure/profile_of.h"
#include "executor/measure/traffic_times.h"

namespace xt {
namespace {

// Seconds for each part. Together they stay below a minute, or below five.
struct Budgets {
  double issue, kernels, memory_copies, collectives, copies, overlap;
};

Budgets budgets(bool is_quick) {
  if (is_quick) return {2, 22, 2, 5, 2, 9};
  return {4, 180, 4, 24, 6, 24};
}

bool is_on_cuda(const MeasureOptions& options) {
  return device_choice(options.device) == DeviceChoice::cuda;
}

Coverage coverage_of(const MeasureOptions& options) {
  if (is_on_cuda(options)) return Coverage::large;
  return options.is_quick ? Coverage::quick : Coverage::full;
}

// Read and written memory together take half of the caches: in a step, what an op reads was partly
// just written. A device's caches are small beside its operands: it finds nothing there.
std::int64_t ring_bytes(const Session& session, const MeasureOptions& options) {
  if (!is_on_cuda(options)) return cache_bytes_per_rank(session.n_ranks()) / 4;
  return largest_call_bytes(coverage_of(options));
}

bool is_rank() { return is_launched() || process_variable("RANK").has_value(); }

int threads_of(const MeasureOptions& options) {
  return options.threads.value_or(threads_per_rank(std::max(1, options.n_ranks)));
}

void check(const MeasureOptions& options) {
  const int threads = threads_of(options), cores = available_cores();
  const DeviceChoice device = device_choice(options.device);
  if (options.n_ranks < 1 || threads < 1)
    throw InputError(
        fmt::format("{} ranks with {} threads each measure nothing", options.n_ranks, threads),
        "both must be at least 1");
  check_devices(device, options.n_ranks);
  if (device != DeviceChoice::cuda && options.n_ranks * threads > cores)
    throw InputError(
        fmt::format("{} ranks × {} threads need {} cores, this process may use {}", options.n_ranks,
                    threads, options.n_ranks * threads, cores),
        "ranks that take each other's cores tell nothing of a step; use fewer ranks or threads");
  if (options.out.has_parent_path()) create_folder(options.out.parent_path());
  check_overwrite(options.out, options.may_overwrite ? Overwrite::allow : Overwrite::refuse);
}

Measurements measure(Session& session, const MeasureOptions& options) {
  const Budgets budget = budgets(options.is_quick);
  const Coverage coverage = coverage_of(options);
  const std::int64_t largest_bytes = largest_call_bytes(coverage);
  const bool is_shown = !options.is_quiet && session.rank() == 0 && isatty(STDERR_FILENO) != 0;
  const auto plan = [&](const char* doing, double budget_s) {
    return RoundPlan{.doing = doing, .budget_s = budget_s, .is_shown = is_shown};
  };
  Measurements found;
  found.machine =
      this_machine(device_choice(options.device), session.n_ranks(), threads_of(options));
  found.reserved_over_allocated = reserved_over_allocated(session.bench().device());
  found.issue = time_issue(session, plan("issuing", budget.issue));
  {
    Ring ring(largest_bytes, ring_bytes(session, options), 1, session.bench().place());
    found.kernels =
        time_kernels(session, kernel_cases(coverage), ring, plan("kernels", budget.kernels));
    if (options.has_bf16)
      std::ranges::move(time_kernels(session, kernel_cases(coverage, DType::bf16), ring,
                                     plan("kernels in bf16", budget.kernels)),
                        std::back_inserter(found.kernels));
  }
  found.memory_copies =
      time_memory_copies(session, largest_bytes, plan("memory", budget.memory_copies));
  found.collectives = time_collectives(session, coverage, plan("collectives", budget.collectives));
  std::tie(found.to_host, found.to_device) =
      time_copies(session, coverage, plan("copies", budget.copies));
  found.held = held_shares(session, plan("overlap", budget.overlap));
  return found;
}

std::size_t count_points(const Profile& profile) {
  std::size_t n = 0;
  for (const KernelEfficiency& kernel : profile.kernels) n += kernel.surface.points.size();
  return n;
}

double median_spread(const Profile& profile) {
  std::vector<double> spreads;
  for (const KernelEfficiency& kernel : profile.kernels)
    spreads.push_back(kernel.sampling.spread_ratio.value());
  return median_of(std::move(spreads));
}

void print_summary(const Profile& profile, const MeasureOptions& options, double seconds) {
  const OverlapShares& held = profile.overlap;
  fmt::print("{}: {}\n", profile.name, profile.title);
  fmt::print("  best matrix product  {} a rank in fp32\n",
             format(profile.peak(DType::fp32)->value));
  if (const auto& narrow = profile.peak(DType::bf16))
    fmt::print("                       {} a rank in bf16\n", format(narrow->value));
  fmt::print("  copies in memory     {} a rank\n", format(profile.hbm.value));
  fmt::print("  issuing              {} an op\n", format(profile.launch.kernel.value));
  if (profile.devices_per_node > 1) {
    fmt::print("  best collective      {} bus bandwidth\n",
               format(profile.scale_up.bandwidth.value));
    fmt::print(
        "  held while it runs   all_gather {:.2f}, reduce_scatter {:.2f}, all_to_all {:.2f}, ",
        held.all_gather.value, held.reduce_scatter.value, held.all_to_all.value);
  } else {
    fmt::print("  held while it runs   ");
  }
  fmt::print("swap {:.2f} of compute\n", held.swap_out.value);
  fmt::print("  {} kernels at {} sizes, spread {:.1f} % (median); wrote {} in {:.0f} s\n",
             profile.kernels.size(), count_points(profile), 100 * median_spread(profile),
             options.out.string(), seconds);
}

void check_hosts(const RankEnvironment& place) {
  if (place.world_size != place.local_world_size)
    throw InputError(
        fmt::format("{} of {} ranks are on this host", place.local_world_size, place.world_size),
        "a profile says what one host does; measure on one host");
}

ExitCode run_rank(const MeasureOptions& options) {
  if (is_launched()) end_with_launcher();
  limit_threads(threads_of(options));
  const auto start = std::chrono::steady_clock::now();
  const RankEnvironment place = rank_environment();
  check_hosts(place);
  Session session(
      place, bench_device(device_choice(options.device), place.local_rank, place.local_world_size));
  const Measurements found = measure(session, options);
  if (session.rank() != 0) return ExitCode::yes;
  const std::string name = options.name.empty() ? options.out.stem().string() : options.name;
  const Profile profile = profile_of(found, name);
  write_file(options.out, to_yaml(write(profile)),
             options.may_overwrite ? Overwrite::allow : Overwrite::refuse);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  print_summary(profile, options, taken.count());
  return ExitCode::yes;
}

}  // namespace

ExitCode measure_command(const MeasureOptions& options) {
  check(options);
  if (is_rank()) return run_rank(options);
  LaunchOptions ranks;
  ranks.n_ranks = options.n_ranks;
  ranks.threads_per_rank = threads_of(options);
  ranks.arguments = options.arguments;
  ranks.arguments.at(0) = this_program();
  return static_cast<ExitCode>(launch(ranks));
}

}  // namespace xt

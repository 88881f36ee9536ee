#include "executor/launch/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace xt {

int available_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int threads_per_rank(int ranks_on_host) { return std::max(1, available_cores() / ranks_on_host); }

void limit_threads(int threads) { at::set_num_threads(threads); }

}  // namespace xt

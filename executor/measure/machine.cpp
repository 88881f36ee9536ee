#include "executor/measure/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

namespace xt {
namespace {

// The processor's name where the system tells it.
std::string processor() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "an unnamed processor";
}

Bytes physical_memory() {
  return Bytes(std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

}  // namespace

MachineFacts this_machine(DeviceChoice choice, int n_ranks, int threads_per_rank) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  MachineFacts facts = {fmt::format("{} ({} cores)", processor(), sysconf(_SC_NPROCESSORS_ONLN)),
                        fmt::format("{:%Y-%m-%d}", fmt::gmtime(now)),
                        TORCH_VERSION,
                        physical_memory(),
                        n_ranks,
                        threads_per_rank};
  if (choice != DeviceChoice::cuda) return facts;
  const DeviceFacts device = cuda_devices().devices.front();
  facts.processor = device.name;
  facts.device_memory = device.memory;
  return facts;
}

}  // namespace xt

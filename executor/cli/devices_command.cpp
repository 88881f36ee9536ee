#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <c10/macros/Macros.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include "costmodel/io/json.h"
#include "costmodel/units/format.h"
#include "executor/cli/commands.h"
#include "executor/devices/device_choice.h"
#include "executor/launch/threads.h"

namespace xt {

Bytes physical_memory() {
  return Bytes(std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGE_SIZE)});
}

namespace {

Json gpu_json(const DeviceFacts& gpu) {
  return Json::object({{"kind", "cuda"},
                       {"name", gpu.name},
                       {"generation", gpu.generation},
                       {"memory_bytes", gpu.memory.value},
                       {"compute_dtypes", Json::array({"fp32", "bf16"})},
                       {"collectives", "nccl"}});
}

void print_gpus(const DeviceListing& gpus) {
  for (std::size_t i = 0; i < gpus.devices.size(); ++i) {
    const DeviceFacts& gpu = gpus.devices[i];
    fmt::print("cuda {}  {}, {}, {} of memory; trains in fp32 and bf16, ranks talk through NCCL\n",
               i, gpu.name, gpu.generation, format(gpu.memory));
  }
  if (gpus.devices.empty()) fmt::print("cuda none: {}\n", gpus.absence);
}

}  // namespace

ExitCode devices_command(bool is_json) {
  const DeviceListing gpus = cuda_devices();
  const int cores = available_cores();
  const std::string vectors = at::get_cpu_capability();
  if (is_json) {
    const Json cpu = Json::object({{"kind", "cpu"},
                                   {"cores", cores},
                                   {"memory_bytes", physical_memory().value},
                                   {"vector_instructions", vectors},
                                   {"compute_dtypes", Json::array({"fp32"})},
                                   {"collectives", "gloo"}});
    Json devices = Json::array({cpu});
    for (const DeviceFacts& gpu : gpus.devices) devices.push_back(gpu_json(gpu));
    fmt::print("{}",
               Json::object(
                   {{"schema", "xt.devices/1"}, {"libtorch", TORCH_VERSION}, {"devices", devices}})
                   .pretty());
    return ExitCode::yes;
  }
  fmt::print("cpu  {} cores, {} of memory, {}; trains in fp32, ranks talk through Gloo\n", cores,
             format(physical_memory()), vectors);
  fmt::print("     up to {} ranks on this host keep a core each; LibTorch {}\n", cores,
             TORCH_VERSION);
  print_gpus(gpus);
  return ExitCode::yes;
}

}  // namespace xt

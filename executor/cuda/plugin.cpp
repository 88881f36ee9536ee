// The entry of the library that brings CUDA.

#include <ATen/Context.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <cstdlib>

#include "costmodel/diagnostics/diagnostic.h"
#include "executor/cuda/cuda_streams.h"
#include "executor/devices/plugin.h"

namespace xt {
namespace {

/// As 13.0, of the runtime's 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DeviceListing none(std::string absence, std::string hint) {
  return {{}, std::move(absence), std::move(hint)};
}

/// Makes no context.
DeviceListing list() {
  int driver = 0, n_devices = 0;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  if (!has_driver)
    return none("there is no NVIDIA driver on this machine",
                "run on a machine with a GPU, or leave --device at cpu");
  if (driver / 1000 < CUDART_VERSION / 1000)
    return none(fmt::format("the driver is for CUDA {}, this program for {}", version_text(driver),
                            version_text(CUDART_VERSION)),
                "install a newer driver");
  const cudaError_t error = cudaGetDeviceCount(&n_devices);
  if (error != cudaSuccess || n_devices == 0)
    return none(fmt::format("the driver shows no device: {}", cudaGetErrorString(error)),
                "CUDA_VISIBLE_DEVICES may hide them");
  DeviceListing listing;
  for (int i = 0; i < n_devices; ++i) {
    cudaDeviceProp of{};
    if (cudaGetDeviceProperties(&of, i) != cudaSuccess) continue;
    listing.devices.push_back({of.name, fmt::format("sm_{}{}", of.major, of.minor),
                               Bytes(static_cast<std::int64_t>(of.totalGlobalMem))});
  }
  return listing;
}

// Sums in fp32 and the same bits every time: what LibTorch may trade for speed unless it is told.
void choose_arithmetic() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setAllowBF16ReductionCuBLAS(/*allow_reduced_precision=*/false);
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
}

std::unique_ptr<Streams> streams(int local_rank) {
  choose_arithmetic();
  return cuda_streams(local_rank);
}

}  // namespace
}  // namespace xt

extern "C" const xt::DevicePlugin* xt_device_plugin() {
  static const xt::DevicePlugin instance{TORCH_VERSION, xt::list, xt::streams};
  return &instance;
}

#include "executor/devices/device_choice.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <filesystem>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/diagnostics/nearest.h"
#include "executor/aten_kernels/aten_kernels.h"
#include "executor/runtime/cpu_device.h"

namespace xt {
namespace {

constexpr const char* library_name = "libxt_cuda.so";

/// The library beside this program.
std::filesystem::path library_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / library_name;
}

const DevicePlugin& load_plugin() {
  const std::filesystem::path path = library_path();
  if (!std::filesystem::exists(path))
    throw InputError(
        fmt::format("{} is not beside this program, which was built without CUDA", library_name),
        "build where cmake finds a CUDA toolkit and a torch wheel for CUDA");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw InputError(fmt::format("{} cannot be loaded: {}", path.string(), dlerror()),
                     "torch's CUDA libraries must lie where XT_TORCH_ROOT pointed at the build, or "
                     "in LD_LIBRARY_PATH");
  using Function = const DevicePlugin* (*)();
  const auto function = reinterpret_cast<Function>(dlsym(library, device_plugin_symbol));
  const DevicePlugin* plugin = function == nullptr ? nullptr : function();
  if (plugin == nullptr || std::string_view(plugin->libtorch) != TORCH_VERSION)
    throw InputError(
        fmt::format("{} was built for LibTorch {}, this program for {}", path.string(),
                    plugin == nullptr ? "of an unknown version" : plugin->libtorch, TORCH_VERSION),
        "build both from one folder");
  return *plugin;
}

/// Loaded once; a failure is said each time.
const DevicePlugin& plugin() {
  static const DevicePlugin& instance = load_plugin();
  return instance;
}

}  // namespace

DeviceChoice device_choice(std::string_view text) {
  const auto* const found = std::ranges::find(device_choice_names, text);
  if (found == device_choice_names.end())
    throw InputError(fmt::format("--device is `{}`", text),
                     did_you_mean(text, device_choice_names, "devices are"));
  return static_cast<DeviceChoice>(found - device_choice_names.begin());
}

DeviceListing cuda_devices() {
  try {
    return plugin().list();
  } catch (const InputError& error) {
    return {{}, error.problems().front().message, error.problems().front().hint};
  }
}

void check_devices(DeviceChoice choice, int local_ranks) {
  if (choice != DeviceChoice::cuda) return;
  const DeviceListing listing = plugin().list();
  if (listing.devices.empty())
    throw InputError(fmt::format("--device is cuda, and {}", listing.absence), listing.hint);
  if (std::ssize(listing.devices) < local_ranks)
    throw InputError(fmt::format("{} ranks on this host and {} CUDA devices", local_ranks,
                                 listing.devices.size()),
                     "a rank needs a device of its own; plan for fewer ranks or spread them over "
                     "more hosts");
}

std::unique_ptr<Device> make_device(DeviceChoice choice, int local_rank, int local_ranks) {
  if (choice != DeviceChoice::cuda) return cpu_device();
  check_devices(choice, local_ranks);
  return stream_device(plugin().streams(local_rank));
}

KernelTable kernels_for(DeviceChoice choice) {
  return choice == DeviceChoice::cpu ? cpu_kernels() : aten_kernels();
}

}  // namespace xt

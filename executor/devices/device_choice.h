#pragma once

// The kinds of device that a run may choose, and which kernels each has. Those of GPUs come from a
// library that is loaded when it is asked for, so that one program serves machines without.

#include <array>
#include <string_view>

#include "executor/devices/plugin.h"
#include "executor/kernels/kernel_table.h"

namespace xt {

/// cpu_aten runs the kernels that GPUs run on the CPU, to hold the two against each other.
enum class DeviceChoice { cpu, cpu_aten, cuda };

inline constexpr std::array<std::string_view, 3> device_choice_names = {"cpu", "cpu-aten", "cuda"};

/// The choice spelt `text`.
///
/// Throws: InputError
DeviceChoice device_choice(std::string_view text);

/// The CUDA devices of this machine; loads the library.
DeviceListing cuda_devices();

/// Throws: InputError if this machine does not have a device for each of `local_ranks`
void check_devices(DeviceChoice choice, int local_ranks);

/// The device of rank `local_rank` of `local_ranks` on this host.
///
/// Throws: InputError if there is none
std::unique_ptr<Device> make_device(DeviceChoice choice, int local_rank, int local_ranks);

/// What computes on it.
KernelTable kernels_for(DeviceChoice choice);

}  // namespace xt

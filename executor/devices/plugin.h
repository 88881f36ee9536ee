#pragma once

// What a library that brings a kind of device offers to the program that loads it. The program and
// the library are built together: both name the LibTorch of their headers.

#include <memory>
#include <string>
#include <vector>

#include "costmodel/units/quantity.h"
#include "executor/runtime/stream_device.h"

namespace xt {

/// One device of this machine.
struct DeviceFacts {
  std::string name;
  std::string generation;  ///< the instructions that it has, such as sm_90
  Bytes memory;
};

/// The devices of this machine, or why there are none.
struct DeviceListing {
  std::vector<DeviceFacts> devices;
  std::string absence;
  std::string hint;  ///< what would help
};

/// What the library says of itself and does.
struct DevicePlugin {
  const char* libtorch = "";  ///< the version of its headers
  DeviceListing (*list)() = nullptr;
  /// Those of the device that rank `local_rank` of this host uses from here on.
  std::unique_ptr<Streams> (*streams)(int local_rank) = nullptr;
};

/// The symbol of the function `const DevicePlugin* ()`, with C linkage.
inline constexpr const char* device_plugin_symbol = "xt_device_plugin";

}  // namespace xt

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <c10/macros/Macros.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include "costmodel/io/json.h"
#include "costmodel/units/format.h"
#include "executor/cli/commands.h"
#include "executor/launch/threads.h"

namespace xt {

Bytes physical_memory() {
  return Bytes(std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGE_SIZE)});
}

ExitCode devices_command(bool is_json) {
  const int cores = available_cores();
  const std::string vectors = at::get_cpu_capability();
  if (is_json) {
    const Json cpu = Json::object({{"kind", "cpu"},
                                   {"cores", cores},
                                   {"memory_bytes", physical_memory().value},
                                   {"vector_instructions", vectors},
                                   {"compute_dtypes", Json::array({"fp32"})},
                                   {"collectives", "gloo"}});
    fmt::print("{}", Json::object({{"schema", "xt.devices/1"},
                                   {"libtorch", TORCH_VERSION},
                                   {"devices", Json::array({cpu})}})
                         .pretty());
    return ExitCode::yes;
  }
  fmt::print("cpu  {} cores, {} of memory, {}; trains in fp32, ranks talk through Gloo\n", cores,
             format(physical_memory()), vectors);
  fmt::print("     up to {} ranks on this host keep a core each; LibTorch {}\n", cores,
             TORCH_VERSION);
  return ExitCode::yes;
}

}  // namespace xt

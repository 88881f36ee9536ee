#pragma once

// What a byte of memory is for, and in which memory it lies.

#include <array>
#include <cstdint>
#include <string_view>

namespace xt {

enum class Space : std::uint8_t { device, host };

inline constexpr std::array<std::string_view, 2> space_names = {"device", "host"};

enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  gathered_parameters,
  saved_activations,
  recomputed_layer,
  logits_and_loss,
  communication_buffers,
  workspace,
  other
};

inline constexpr std::array<std::string_view, 10> memory_category_names = {
    "parameters",        "gradients",
    "optimizer",         "gathered_parameters",
    "saved_activations", "recomputed_layer",
    "logits_and_loss",   "communication_buffers",
    "workspace",         "other"};

}  // namespace xt

#pragma once

// Plans as a user would ask for them by flags, on the models and machines of this repository.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/diagnostics/diagnostic.h"
#include "planner/plan/plan.h"

namespace xt::test {

using Flags = std::vector<std::pair<std::string, std::string>>;

/// `flags` with `more`, which take the place of flags of the same name.
inline Flags with(Flags flags, const Flags& more) {
  for (const auto& flag : more) {
    std::erase_if(flags, [&](const auto& earlier) { return earlier.first == flag.first; });
    flags.push_back(flag);
  }
  return flags;
}

/// The plan of `flags`, and of a file in configs/runs if one is named.
inline Plan plan_of(const Flags& flags, const std::string& run = {}) {
  std::optional<std::filesystem::path> file;
  if (!run.empty())
    file = std::filesystem::path(XT_DATA_ROOT) / "configs" / "runs" / (run + ".yaml");
  Request request(file, flags);
  return resolve(request, Catalogue{XT_DATA_ROOT});
}

/// The first problem that keeps `make` from making a plan; empty where nothing does.
template <typename Make>
std::string refusal_by(const Make& make) {
  try {
    make();
  } catch (const InputError& error) {
    return headline(error.problems().front());
  }
  return "";
}

/// Qwen3-8B without recompute on 16 H100, with `more`.
inline Plan plan_on_16_h100(const Flags& more) {
  return plan_of(with(
      {{"model", "qwen3_8b"}, {"machine", "h100_sxm"}, {"devices", "16"}, {"recompute", "none"}},
      more));
}

/// MPT-7B in four stages of Megatron-LM on 16 ranks, with `more`.
inline Plan plan_in_stages(const Flags& more) {
  return plan_of(with({{"model", "mpt_7b"},
                       {"machine", "h100_sxm"},
                       {"devices", "16"},
                       {"engine", "megatron"},
                       {"recompute", "none"},
                       {"pack_length", "2048"},
                       {"gradient_accumulation", "8"},
                       {"pipeline_parallel", "4"}},
                      more));
}

}  // namespace xt::test

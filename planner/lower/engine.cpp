#include "planner/lower/engine.h"

#include <array>

#include "planner/lower/further_engines.h"

namespace xt {
namespace {

constexpr std::array<EngineRules, 21> rows = {xt_run(),
                                              xtuner_v1(),
                                              torchtitan(),
                                              accelerate(),
                                              trl(),
                                              simple_fsdp(),
                                              maxtext(),
                                              fsdp1(),
                                              composer(),
                                              fsdp1_autocast(),
                                              megatron(),
                                              megatron_fsdp(),
                                              megatron_deepspeed(),
                                              deepspeed(),
                                              colossalai(),
                                              mindspeed(),
                                              mindspeed_fsdp(),
                                              mindformers(),
                                              nanotron(),
                                              internevo(),
                                              internevo_fsdp()};

}  // namespace

std::span<const EngineRules> engines() { return rows; }

const EngineRules* engine_named(std::string_view name) {
  for (const EngineRules& rules : rows)
    if (rules.name == name) return &rules;
  return nullptr;
}

}  // namespace xt

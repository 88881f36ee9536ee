#include "tests/executor/train/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <system_error>

#include "costmodel/io/files.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "planner/lower/lower.h"

namespace xt {
namespace {

std::string content(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

constexpr std::string_view tiny_config = R"({
  "model_type": "qwen3_moe", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64,
  "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
  "norm_topk_prob": true, "tie_word_embeddings": false, "rope_theta": 10000.0
})";

constexpr std::string_view tiny_latent_config = R"({
  "model_type": "deepseek_v3", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64, "kv_lora_rank": 16,
  "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1,
  "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
  "moe_intermediate_size": 32, "tie_word_embeddings": false, "rope_theta": 10000.0
})";

}  // namespace

Program::Program(const std::filesystem::path& folder, std::vector<std::string> arguments,
                 std::vector<std::string> variables, std::string program)
    : out_(folder / "out.txt"), err_(folder / "err.txt") {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_.c_str(), flags, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_.c_str(), flags, 0644);
  const int error =
      posix_spawn(&process_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), program);
}

Program::~Program() {
  if (has_ended_) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::optional<pid_t> Program::rank(int rank) const {
  std::stringstream children(content(fmt::format("/proc/{0}/task/{0}/children", process_)));
  for (pid_t child = 0; children >> child;) {
    const std::string environment = '\0' + content(fmt::format("/proc/{}/environ", child));
    const std::string variable = fmt::format("RANK={}", rank);
    if (environment.find('\0' + variable + '\0') != std::string::npos) return child;
  }
  return std::nullopt;
}

Answer Program::wait() {
  int end = 0;
  waitpid(process_, &end, 0);
  has_ended_ = true;
  return {WIFEXITED(end) ? WEXITSTATUS(end) : -1, content(out_), content(err_)};
}

Answer xt_run(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  return Program(folder, std::move(arguments)).wait();
}

PlanFile make_plan(const std::filesystem::path& directory, const PlanChoices& choices) {
  Strategy strategy;
  strategy.ranks = choices.ranks;
  strategy.expert_parallel = choices.expert_parallel;
  strategy.gradient_accumulation = choices.gradient_accumulation;
  strategy.pack_length = strategy.sample_length = choices.pack_length;
  strategy.loss_chunk = choices.pack_length;
  strategy.shard_ranks = choices.shard_ranks;
  if (choices.swaps) strategy.recompute_layers = strategy.swap_layers = 2;
  create_folder(directory);
  const std::filesystem::path config = directory / model_config_file_name;
  write_file(config, choices.has_router_bias ? tiny_latent_config : tiny_config, Overwrite::allow);
  Architecture model = read<ModelConfig>(read_json(config)).architecture;
  model.hidden_size = choices.hidden_size;
  const Schedule schedule = lower(build_decoder(model, graph_options(strategy)), strategy);
  PlanFile plan;
  plan.schedule_digest = digest_text(digest(schedule));
  plan.model_name = "tiny";
  plan.model_type = model.model_type;
  plan.vocab_size = 256;
  plan.machine_name = "here";
  plan.engine = strategy.engine;
  plan.ranks = choices.ranks;
  plan.expert_parallel = choices.expert_parallel;
  plan.pack_length = plan.sample_length = plan.loss_chunk = choices.pack_length;
  plan.pack_level = choices.pack_level;
  plan.groups_by_length = choices.groups_by_length;
  plan.gradient_accumulation = choices.gradient_accumulation;
  plan.optimizer.learning_rate = 3e-3;
  plan.model_flops = 1e9;
  plan.peak_flops_per_s = 1e11;
  plan.prediction.emplace();
  plan.prediction->step_time_s = 0.01;
  plan.prediction->tokens_per_device_s = 6400;
  plan.prediction->communication.entries = {{"all_gather", {0.002, 0.001}}};
  write_plan(directory, plan, Overwrite::allow);
  write_schedule(directory / schedule_file_name, schedule, Overwrite::allow);
  return plan;
}

}  // namespace xt

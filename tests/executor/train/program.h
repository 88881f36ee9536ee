#pragma once

// xt-run as a user starts it, on plan directories made here.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/io/plan_file.h"

namespace xt {

/// What a program said and how it ended.
struct Answer {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// xt-run, started.
class Program {
 public:
  /// Files for its output lie in `folder`; `variables` win over this process's. `program` is
  /// another that starts xt-run.
  Program(const std::filesystem::path& folder, std::vector<std::string> arguments,
          std::vector<std::string> variables = {}, std::string program = XT_RUN);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t process() const { return process_; }
  /// The process that runs as `rank`, once there is one.
  std::optional<pid_t> rank(int rank) const;
  Answer wait();

 private:
  std::filesystem::path out_, err_;
  pid_t process_ = 0;
  bool has_ended_ = false;
};

/// Runs xt-run to its end.
Answer xt_run(const std::filesystem::path& folder, std::vector<std::string> arguments);

/// What differs between the plans of these tests.
struct PlanChoices {
  std::int64_t ranks = 1;
  std::int64_t expert_parallel = 1;
  std::int64_t gradient_accumulation = 1;
  std::int64_t pack_length = 64;
  std::int64_t shard_ranks = 0;  ///< 0: all
  std::int64_t hidden_size = 32;
  bool swaps = false;  ///< inputs of all layers, which are recomputed
  PackLevel pack_level = PackLevel::hard;
  bool groups_by_length = true;
  bool has_router_bias = false;  ///< DeepSeek-V3 instead of Qwen3-MoE
};

/// Writes a plan of a tiny routed model over bytes; returns its `plan.json`.
PlanFile make_plan(const std::filesystem::path& directory, const PlanChoices& choices);

}  // namespace xt

#pragma once

// A run with everything decided: model, machine, strategy, optimizer. What the user left to us is
// decided here by asking the schedule for its memory, never by a formula of its own.

#include <filesystem>
#include <optional>
#include <string>

#include "costmodel/hardware/profile.h"
#include "costmodel/ir/op_graph.h"
#include "costmodel/models/config.h"
#include "planner/plan/data_load.h"
#include "planner/plan/run_file.h"
#include "planner/strategy.h"

namespace xt {

/// Where models and machines are looked up by name: `configs/models` and `profiles` below `root`.
struct Catalogue {
  std::filesystem::path root;

  /// Throws: InputError, naming the nearest known name
  ModelConfig model(const std::string& name_or_path) const;
  /// The file that describes that model.
  std::filesystem::path model_file(const std::string& name_or_path) const;
  Profile machine(const std::string& name_or_path) const;
  std::vector<std::string> model_names() const;
  std::vector<std::string> machine_names() const;
};

/// The samples of a run.
struct PlanData {
  LengthDistribution lengths;
  PackLevel pack_level = PackLevel::soft;
  bool groups_by_length = true;
  std::optional<DataLoad> load = {};  ///< where lengths differ
};

/// All steps of a run together.
struct PlanRun {
  std::optional<double> tokens;             ///< that it trains on
  std::optional<double> device_hour_price;  ///< in any currency
};

/// A run with everything resolved.
struct Plan {
  std::string model_name;
  std::filesystem::path model_file;  ///< empty for a model that is in no file
  std::string machine_name;
  Architecture architecture;
  Profile profile;
  Strategy strategy;
  PlanData data;
  PlanOptimizer optimizer;
  PlanRun run;
  std::int64_t devices = 1;
  std::int64_t seed = 0;
  std::optional<double> calibration_error;  ///< median |error| of the overlay on plans not used
  bool has_automatic_chunk = false;
  bool has_automatic_swap = false;
};

/// What a plan is made for: a model on a machine.
struct Subject {
  std::string model_name;
  Architecture architecture;
  std::string machine_name;
  Profile profile;
  std::optional<double> calibration_error = {};  ///< of the overlay that `profile` has, if any
  std::filesystem::path model_file = {};         ///< that `architecture` is from, if any
};

/// The model and the machine that `request` names; problems with either are reported to it.
Subject subject_of(Request& request, const Catalogue& catalogue);

/// The plan that `request` asks for, of the model and the machine that it names.
///
/// Defaults: engine xt_run, its own dtype, one device, expert_parallel 1, pack_length 4096, samples
///           as long as the pack, recompute all, swap none, loss_chunk auto or none, zero the most
///           that the engine has
/// Throws: InputError with every field that cannot be
Plan resolve(Request& request, const Catalogue& catalogue);
/// The same for a model and a machine that need not be in any catalogue.
Plan resolve(Request& request, Subject subject);

/// The op graph of a plan's micro-step.
OpGraph graph_of(const Plan& plan);

}  // namespace xt

#pragma once

// What a user writes: a run file, and flags that override it. Every field may be absent from
// either; what is absent from both takes the default that resolve() documents.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/document/reader.h"
#include "planner/plan/choice.h"

namespace xt {

/// Fields of a run file (schema xt.run/1). Flags have the same names in kebab-case.
struct RunFile {
  std::optional<std::string> schema;
  std::optional<std::string> model;
  std::optional<std::string> machine;
  std::optional<std::string> overlay;
  std::optional<std::string> engine;
  std::optional<DType> compute_dtype;
  std::optional<std::int64_t> devices;
  std::optional<std::int64_t> expert_parallel;
  std::optional<bool> expert_parallel_across_nodes;
  std::optional<std::int64_t> pack_length;
  std::optional<std::int64_t> sample_length;
  std::optional<std::int64_t> gradient_accumulation;
  std::optional<Choice> recompute;
  std::optional<Choice> swap;
  std::optional<Choice> loss_chunk;
  std::optional<double> learning_rate;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> adam_eps;
  std::optional<double> weight_decay;
  std::optional<double> max_grad_norm;
  std::optional<std::int64_t> seed;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of the file").one_of(std::array{"xt.run/1"});
    describe_step(archive);
    describe_optimizer(archive);
  }

  /// The fields that `flags` set, the rest from `file`.
  static RunFile merged(const RunFile& file, const RunFile& flags);

 private:
  template <typename Archive>
  void describe_step(Archive& archive) {
    archive.field("model", model, "Name in configs/models, or a config.json");
    archive.field("machine", machine, "Name in profiles, or a profile");
    archive.field("overlay", overlay, "Calibration to lay over the machine's profile");
    archive.field("engine", engine, "Whose step it is: xt_run or xtuner_v1");
    archive.field("compute_dtype", compute_dtype, "Of parameters and activations in use");
    archive.field("devices", devices, "Packages, each with the ranks of its profile").at_least(1);
    archive.field("expert_parallel", expert_parallel, "Ranks that share a layer's experts")
        .at_least(1);
    archive.field("expert_parallel_across_nodes", expert_parallel_across_nodes,
                  "Allows experts to be spread over nodes");
    archive.field("pack_length", pack_length, "Tokens of one pack, one per rank and micro-step")
        .at_least(2);
    archive.field("sample_length", sample_length, "Tokens of each sample in a pack").at_least(1);
    archive.field("gradient_accumulation", gradient_accumulation, "Micro-steps of a step")
        .at_least(1);
    archive.field("recompute", recompute, "Layers recomputed in the backward pass");
    archive.field("swap", swap, "Layers whose input waits in host memory");
    archive.field("loss_chunk", loss_chunk, "Tokens of a chunk of the loss");
  }
  template <typename Archive>
  void describe_optimizer(Archive& archive) {
    archive.field("learning_rate", learning_rate, "Of AdamW").above(0);
    archive.field("beta1", beta1, "Of AdamW").at_least(0).at_most(1);
    archive.field("beta2", beta2, "Of AdamW").at_least(0).at_most(1);
    archive.field("adam_eps", adam_eps, "Of AdamW").above(0);
    archive.field("weight_decay", weight_decay, "Of AdamW, decoupled").at_least(0);
    archive.field("max_grad_norm", max_grad_norm, "Gradients are clipped to").above(0);
    archive.field("seed", seed, "Of weights and data").at_least(0);
  }
};

/// A run file and flags, read and merged, with where each field came from.
class Request {
 public:
  /// `flags` by field name, as typed.
  ///
  /// Throws: InputError with every problem of both
  Request(const std::optional<std::filesystem::path>& file,
          const std::vector<std::pair<std::string, std::string>>& flags);

  const RunFile& fields() const { return fields_; }
  /// The text of the run file; empty without one.
  const std::string& file_text() const { return file_.source.text; }

  /// Reports a problem with `field`, at the flag or the line that set it.
  void problem(std::string_view field, std::string message, std::string hint = {});
  /// Throws: InputError with all problems reported, if there are any
  void finish() const;

 private:
  Document file_;
  Document flags_;
  RunFile fields_;
  std::vector<Diagnostic> problems_;
};

}  // namespace xt

#include "executor/train/resume.h"

#include <fmt/format.h>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/files.h"
#include "costmodel/io/schedule_lines.h"
#include "executor/checkpoints/element_digest.h"

namespace xt {
namespace {

FoundCheckpoint open_checkpoint(const std::filesystem::path& path) {
  FoundCheckpoint found{path, read_checkpoint_file(path), {}, {}};
  found.state = open_state(path, found.file);
  const std::filesystem::path metrics = path / checkpoint_metrics_name;
  found.metrics = read_file(metrics);
  if (digest_text(text_digest(found.metrics)) != found.file.metrics_digest)
    throw InputError({error_in(metrics.string(), "does not have the digest that it should")});
  return found;
}

std::string packs_of(const DataIdentity& data) {
  return fmt::format("{} and {}", pack_level_names[static_cast<std::size_t>(data.pack_level)],
                     data.groups_by_length ? "grouped by length" : "shuffled");
}

}  // namespace

std::string damage_note(const std::filesystem::path& folder, const std::string& reason) {
  return fmt::format("{} is damaged and left out: {}", folder.string(), reason);
}

FoundCheckpoints find_checkpoints(const CheckpointStore& store) {
  FoundCheckpoints found;
  for (const std::int64_t step : store.steps()) {
    const std::filesystem::path path = store.path(step);
    try {
      found.whole.push_back(open_checkpoint(path));
    } catch (const InputError& error) {
      found.damaged.push_back(damage_note(path, error.what()));
    }
  }
  return found;
}

void check_resumable(const FoundCheckpoint& found, const Schedule& schedule,
                     const DataIdentity& data, std::int64_t steps) {
  const auto refuse = [&](std::string message, std::string hint) {
    throw InputError({error_in(found.path.string(), std::move(message), std::move(hint))});
  };
  const CheckpointFile& file = found.file;
  if (file.position.step >= steps)
    refuse(fmt::format("is of step {}, which leaves none of {} to do", file.position.step, steps),
           "pass more --steps");
  const auto differs = [&](const char* what, const auto& was, const auto& is) {
    if (was == is) return;
    refuse(fmt::format("is of a run with {} {}, this one has {}", what, was, is),
           fmt::format("resume with the same data and packs, or start anew with `--weights {}`",
                       (found.path / state_names[0]).string()));
  };
  differs("seed", file.data.seed, data.seed);
  differs("packs of length", file.data.pack_length, data.pack_length);
  differs("samples of length", file.data.sample_length, data.sample_length);
  differs("packs that are", packs_of(file.data), packs_of(data));
  differs("documents:", file.data.documents, data.documents);
  differs("tokens of data:", file.data.tokens, data.tokens);
  check_state(schedule, found.state, found.path);
}

void refuse_to_resume(const CheckpointStore& store, const FoundCheckpoints& found) {
  std::vector<Diagnostic> problems;
  for (const std::string& note : found.damaged) problems.push_back({Severity::warning, {}, note});
  problems.push_back(error_in(store.folder().string(), "holds no whole checkpoint to resume from",
                              "leave --resume away to start from the first step"));
  throw InputError(std::move(problems));
}

}  // namespace xt

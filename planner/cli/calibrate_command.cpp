#include <fmt/format.h>

#include <cmath>

#include "costmodel/document/writer.h"
#include "costmodel/io/files.h"
#include "costmodel/io/yaml.h"
#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/cli/commands.h"
#include "planner/compare/calibration.h"

namespace xt {
namespace {

std::vector<std::pair<std::string, MeasuredPlan>> read_all(
    const std::vector<std::filesystem::path>& directories) {
  std::vector<std::pair<std::string, MeasuredPlan>> plans;
  for (const std::filesystem::path& directory : directories)
    plans.emplace_back(directory.lexically_normal().string(), read_measured_plan(directory));
  return plans;
}

std::string signed_percent(double ratio) { return fmt::format("{:+.1f} %", ratio * 100); }

Json calibration_json(const Calibration& calibration) {
  Json scales = Json::array();
  for (const KernelScale& scale : calibration.scales)
    scales.push_back(Json::object({{"kernel", name(scale.kernel)},
                                   {"scale", scale.scale},
                                   {"n_observations", scale.n_observations},
                                   {"residual_ratio", scale.residual_ratio}}));
  Json scores = Json::array();
  for (const Score& score : calibration.scores)
    scores.push_back(Json::object({{"plan", score.name},
                                   {"measured_s", score.measured.value},
                                   {"before_s", score.before.value},
                                   {"after_s", score.after.value},
                                   {"error_before_ratio", score.error_before()},
                                   {"error_after_ratio", score.error_after()}}));
  return Json::object({{"schema", "xt.calibration/1"}, {"scales", scales}, {"scores", scores}});
}

std::string calibration_text(const Calibration& calibration) {
  Table scales({{"kernel", {}, Align::left}, {"scale"}, {"shapes"}, {"median error left"}});
  for (const KernelScale& scale : calibration.scales)
    scales.row({std::string(name(scale.kernel)), fmt::format("{:.3f}", scale.scale),
                std::to_string(scale.n_observations), percent(scale.residual_ratio)});
  std::string text = scales.text();
  if (calibration.scores.empty()) return text;
  Table scores({{"plan not fitted to", {}, Align::left},
                {"measured", "ms"},
                {"before", "ms"},
                {"error"},
                {"after", "ms"},
                {"error"}});
  for (const Score& score : calibration.scores)
    scores.row({score.name, significant(score.measured.value * 1e3, 4),
                "~" + significant(score.before.value * 1e3, 4),
                signed_percent(score.error_before()), "~" + significant(score.after.value * 1e3, 4),
                signed_percent(score.error_after())});
  return text + "\n" + scores.text();
}

}  // namespace

ExitCode calibrate_command(const CalibrateOptions& options, const Surroundings& around) {
  const Overwrite overwrite = options.may_overwrite ? Overwrite::allow : Overwrite::refuse;
  check_overwrite(options.out, overwrite);
  const Calibration calibration = calibrate(read_all(options.fit_on), read_all(options.score_on));
  write_file(options.out, to_yaml(write(calibration.overlay)), overwrite);
  if (around.is_json) {
    fmt::print("{}", calibration_json(calibration).pretty());
  } else {
    fmt::print("{}\nwrote {}\n", calibration_text(calibration),
               around.style.painted(Meaning::path, options.out.string()));
  }
  return ExitCode::yes;
}

}  // namespace xt

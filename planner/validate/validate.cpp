#include "planner/validate/validate.h"

#include <cmath>

#include "planner/parallel.h"
#include "planner/validate/left_out.h"
#include "planner/validate/row_notes.h"

namespace xt {
namespace {

RowOutcome price_row(const PublishedRow& row, const Profiles& profiles) {
  const RowPlan plan = plan_of(row, profiles);
  if (!plan.plan) return {{}, plan.reason, plan.detail};
  return {predict(row, *plan.plan)};
}

std::array<Seconds, kernel_class_names.size()> alone_by_class(const Estimate& of) {
  std::array<Seconds, kernel_class_names.size()> seconds{};
  for (std::size_t s = 0; s < of.runs.size(); ++s)
    for (std::size_t i = at(of.schedule.sections[s].begin); i < at(of.schedule.sections[s].end);
         ++i) {
      const Op& op = of.schedule.ops[i];
      const KernelClass kind = kernel_class(of.schedule.work(op).kernel);
      seconds[static_cast<std::size_t>(kind)] +=
          alone(of.prices.demands[at(op.work)]) * static_cast<double>(of.runs[s]);
    }
  return seconds;
}

RowPrediction prediction_of(const Plan& plan, const Estimate& answer) {
  RowPrediction prediction;
  prediction.tokens_per_device_s = tokens_per_device_s(plan, answer);
  prediction.step_time_s = answer.account.step.value;
  prediction.allocated = answer.timeline.device_memory.peak;
  prediction.reserved = answer.device.reserved_p50;
  prediction.beside = answer.device.beside();
  prediction.fits = answer.fits();
  const double tokens_per_rank_s =
      prediction.tokens_per_device_s / static_cast<double>(plan.profile.ranks_per_device);
  prediction.hardware_flops_per_token =
      answer.hardware_flops.value / (tokens_per_rank_s * prediction.step_time_s);
  prediction.alone = alone_by_class(answer);
  return prediction;
}

// The allocator holds in every stage of a pipeline as much more than is allocated.
void take_stage(RowPrediction& prediction, const StageAnswer& stage) {
  const double share = stage.peak / prediction.allocated;
  prediction.reserved = Bytes(std::llround(share * static_cast<double>(prediction.reserved.value)));
  prediction.allocated = stage.peak;
}

}  // namespace

RowPrediction predict(const Plan& plan) { return prediction_of(plan, estimate(plan)); }

RowPrediction predict(const PublishedRow& row, const Plan& plan) {
  const Estimate answer = estimate(plan);
  RowPrediction prediction = prediction_of(plan, answer);
  const double steady_part = 1 - below_steady(row);
  prediction.tokens_per_device_s *=
      steady_part / static_cast<double>(dies_of_row(row, plan.profile));
  prediction.step_time_s /= steady_part;
  if (is_of_first_stage(row) && answer.pipeline)
    take_stage(prediction, answer.pipeline->stages.front());
  if (is_of_last_stage(row) && answer.pipeline)
    take_stage(prediction, answer.pipeline->stages.back());
  return prediction;
}

std::vector<RowOutcome> price_rows(const std::vector<PublishedRow>& rows,
                                   const Catalogue& catalogue, std::size_t n_threads) {
  const Profiles profiles = profiles_of(rows, catalogue);
  std::vector<RowOutcome> outcomes(rows.size());
  in_parallel(rows.size(), n_threads,
              [&](std::size_t i) { outcomes[i] = price_row(rows[i], profiles); });
  price_left_out(rows, profiles, n_threads, outcomes);
  return outcomes;
}

}  // namespace xt

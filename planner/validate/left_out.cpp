#include "planner/validate/left_out.h"

#include <map>
#include <optional>

#include "costmodel/calibrate/class_fit.h"
#include "planner/parallel.h"

namespace xt {
namespace {

using Seconds7 = std::array<Seconds, kernel_class_names.size()>;

double alone(const Seconds7& seconds, KernelClass of) {
  return seconds[static_cast<std::size_t>(of)].value;
}

ClassFactors by_class(const Seconds7& seconds) {
  return {alone(seconds, KernelClass::matrix) + alone(seconds, KernelClass::grouped_matrix),
          alone(seconds, KernelClass::attention), alone(seconds, KernelClass::memory_bound)};
}

std::optional<StepShares> shares_of(const PublishedRow& row, const RowOutcome& outcome) {
  if (!outcome.predicted || !row.is_usable_for(Use::time)) return std::nullopt;
  const RowPrediction& predicted = *outcome.predicted;
  const double measured =
      predicted.step_time_s * predicted.tokens_per_device_s / *row.tokens_per_device_s();
  StepShares shares;
  shares.rest = predicted.step_time_s / measured;
  const ClassFactors seconds = by_class(predicted.alone);
  for (std::size_t c = 0; c < n_scaled_classes; ++c) {
    shares.of_class[c] = seconds[c] / measured;
    shares.rest -= shares.of_class[c];
  }
  return shares;
}

// Which factor the kernels of a class get.
std::optional<ScaledClass> scaled_class(KernelClass of) {
  switch (of) {
    case KernelClass::matrix:
    case KernelClass::grouped_matrix:
      return ScaledClass::products;
    case KernelClass::attention:
      return ScaledClass::attention;
    case KernelClass::memory_bound:
      return ScaledClass::memory_bound;
    default:
      return std::nullopt;
  }
}

Profile scaled(Profile profile, const ClassFactors& factors) {
  Named<double> scales;
  for (const KernelRow& of : kernel_rows) {
    const double before = scale(profile, of.kernel);
    const auto kind = scaled_class(of.kernel_class);
    scales.entries.emplace_back(std::string(of.name),
                                before * (kind ? factors[static_cast<std::size_t>(*kind)] : 1.0));
  }
  profile.scales = std::move(scales);
  return profile;
}

// Of each machine and source: the machine's profile, fitted to the rows of all other sources.
class FittedProfiles {
 public:
  FittedProfiles(const std::vector<PublishedRow>& rows, const std::vector<RowOutcome>& outcomes,
                 const Profiles& profiles) {
    std::map<std::string, std::map<std::string, std::vector<StepShares>>> by_machine;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (const auto shares = shares_of(rows[i], outcomes[i]))
        by_machine[profile_name(rows[i])][rows[i].group()].push_back(*shares);
    for (const auto& [machine, sources] : by_machine)
      for (const auto& [left_out, unused] : sources) fit(machine, left_out, sources, profiles);
  }

  /// The profiles for `row`; none where its machine has no other source.
  const Profiles* of(const PublishedRow& row) const {
    const auto found = fitted_.find({profile_name(row), row.group()});
    return found == fitted_.end() ? nullptr : &found->second;
  }

 private:
  void fit(const std::string& machine, const std::string& left_out,
           const std::map<std::string, std::vector<StepShares>>& sources,
           const Profiles& profiles) {
    std::vector<StepShares> others;
    for (const auto& [source, shares] : sources)
      if (source != left_out) others.insert(others.end(), shares.begin(), shares.end());
    if (others.empty()) return;
    fitted_[{machine, left_out}] = {{machine, scaled(profiles.at(machine), fit_classes(others))}};
  }

  std::map<std::pair<std::string, std::string>, Profiles> fitted_;
};

}  // namespace

void price_left_out(const std::vector<PublishedRow>& rows, const Profiles& profiles,
                    std::size_t n_threads, std::vector<RowOutcome>& outcomes) {
  const FittedProfiles fitted(rows, outcomes, profiles);
  in_parallel(rows.size(), n_threads, [&](std::size_t i) {
    const Profiles* own = fitted.of(rows[i]);
    if (!shares_of(rows[i], outcomes[i]) || own == nullptr) return;
    outcomes[i].left_out = predict(rows[i], *plan_of(rows[i], *own).plan);
  });
}

}  // namespace xt

#include "planner/estimate/price_list.h"

#include <algorithm>

#include "costmodel/diagnostics/diagnostic.h"
#include "planner/estimate/changes.h"

namespace xt {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

Subject subject_of(const Plan& plan) {
  return {plan.model_name, plan.architecture, plan.machine_name, plan.profile,
          plan.calibration_error};
}

class Pricer {
 public:
  Pricer(const Request& request, const Plan& plan, const Estimate& estimate)
      : request_(request.with(resolved_choices(plan))),
        subject_(subject_of(plan)),
        estimate_(estimate),
        tokens_per_s_(tokens_per_device_s(plan, estimate)) {
    seen_.push_back(plan.strategy);
  }

  /// None where the engine refuses the change, it makes a run that was priced before, or it lowers
  /// no peak, of what is allocated and of what the device must have.
  std::optional<Price> price(const Change& change) {
    const std::optional<Plan> plan = changed(change);
    if (!plan || std::ranges::find(seen_, plan->strategy) != seen_.end()) return std::nullopt;
    seen_.push_back(plan->strategy);
    const Estimate answer = estimate(*plan);
    const DeviceMemory& before = estimate_.device;
    if (answer.device.allocated >= before.allocated || answer.device.p50() >= before.p50())
      return std::nullopt;
    Price price;
    price.change = change;
    price.device = answer.device;
    price.host_peak = answer.timeline.host_memory.peak;
    price.saved = before.allocated - answer.device.allocated;
    price.added = estimate_.account.step * (tokens_per_s_ / tokens_per_device_s(*plan, answer) - 1);
    price.fit = answer.fit();
    return price;
  }

 private:
  std::optional<Plan> changed(const Change& change) const {
    try {
      Request request = request_.with(change);
      return resolve(request, subject_);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  Request request_;
  Subject subject_;
  const Estimate& estimate_;
  double tokens_per_s_;
  std::vector<Strategy> seen_;
};

std::vector<std::string> fields_of(const Change& change) {
  std::vector<std::string> fields;
  for (const auto& [field, text] : change) fields.push_back(field);
  std::ranges::sort(fields);
  return fields;
}

bool has_same_fields(const Price& a, const Change& b) {
  return fields_of(a.change) == fields_of(b);
}

bool is_possible(const Price& price) { return price.fit != Fit::does_not_fit; }

// Whether less of `change` makes a plan fit that does not.
bool is_enough(const std::vector<Price>& prices, const Change& change) {
  return std::ranges::any_of(prices, [&](const Price& price) {
    return price.fit == Fit::fits && has_same_fields(price, change);
  });
}

// Both changes; none where they want different things of one field.
std::optional<Change> both(const Change& first, const Change& second) {
  Change change = first;
  for (const auto& one : second) {
    const bool is_taken =
        std::ranges::any_of(first, [&](const auto& other) { return other.first == one.first; });
    if (is_taken) return std::nullopt;
    change.push_back(one);
  }
  return change;
}

// Pairs of what does not suffice alone, of those that save most.
std::vector<Price> pairs_that_fit(Pricer& pricer, std::vector<Price> prices) {
  constexpr std::size_t n_best = 6;
  std::erase_if(prices, is_possible);
  std::ranges::stable_sort(prices, std::ranges::greater(), &Price::saved);
  prices.resize(std::min(prices.size(), n_best));
  std::vector<Price> result;
  for (std::size_t i = 0; i < prices.size(); ++i)
    for (std::size_t j = i + 1; j < prices.size(); ++j) {
      const std::optional<Change> change = both(prices[i].change, prices[j].change);
      std::optional<Price> price = change ? pricer.price(*change) : std::nullopt;
      if (price && is_possible(*price)) result.push_back(std::move(*price));
    }
  return result;
}

// The least multiple that fits, if one does; twice as many are a change like any other.
std::optional<Price> enough_devices(Pricer& pricer, const Plan& plan) {
  constexpr std::int64_t most = 64;
  for (std::int64_t times = 4; times <= most; times *= 2) {
    std::optional<Price> price = pricer.price(more_devices(plan, times));
    if (price && is_possible(*price)) return price;
  }
  return std::nullopt;
}

// One way for each set of fields: of several that fit, the one tried first changes least.
std::vector<Price> ways_to_fit(Pricer& pricer, const std::vector<Price>& prices) {
  constexpr std::size_t n_shown = 3;
  std::vector<Price> ways;
  const auto take = [&](const Price& price) {
    const auto is_like_it = [&](const Price& way) { return has_same_fields(way, price.change); };
    if (is_possible(price) && std::ranges::none_of(ways, is_like_it)) ways.push_back(price);
  };
  std::ranges::for_each(prices, take);
  if (ways.size() < n_shown) std::ranges::for_each(pairs_that_fit(pricer, prices), take);
  std::ranges::stable_sort(ways, {}, &Price::added);
  ways.resize(std::min(ways.size(), n_shown));
  return ways;
}

std::vector<Holders> alive_at_peak(const Estimate& estimate) {
  const Schedule& schedule = estimate.schedule;
  const Bindings bindings = assumed_bindings(schedule);
  const OpId op = estimate.timeline.device_memory.op;
  if (!estimate.pipeline) return holders_at(schedule, bindings, Space::device, op);
  return holders_at(schedule, bindings, Space::device, op, estimate.pipeline->runs_before_peak);
}

}  // namespace

double Price::seconds_per_gib() const {
  return added.value / (static_cast<double>(saved.value) / gib);
}

PriceList price_list(const Request& request, const Plan& plan, const Estimate& estimate) {
  PriceList list;
  list.alive = alive_at_peak(estimate);
  Pricer pricer(request, plan, estimate);
  const auto add = [&](std::optional<Price> price) {
    if (price) list.prices.push_back(std::move(*price));
  };
  for (const Change& change : changes_of(request.fields(), plan, estimate.fits()))
    if (estimate.fits() || !is_enough(list.prices, change)) add(pricer.price(change));
  if (!estimate.fits()) {
    if (!is_enough(list.prices, more_devices(plan, 2))) add(enough_devices(pricer, plan));
    list.ways_to_fit = ways_to_fit(pricer, list.prices);
  }
  std::ranges::stable_sort(list.prices, {}, &Price::seconds_per_gib);
  return list;
}

}  // namespace xt

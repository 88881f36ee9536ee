#include <fmt/format.h>

#include <algorithm>

#include "costmodel/report/table.h"
#include "planner/estimate/price_list.h"

namespace xt {
namespace {

std::string gib(Bytes bytes) {
  return significant(static_cast<double>(bytes.value) / (1024.0 * 1024.0 * 1024.0), 4);
}

std::string signed_ms(double seconds) { return fmt::format("{:+.1f}", seconds * 1e3); }

// Those that hold a hundredth of the peak each, and what the others hold together.
std::string alive_table(const Estimate& estimate, const std::vector<Holders>& alive) {
  constexpr double least = 0.01;
  Table table({{"alive at the peak", {}, Align::left},
               {"", {}, Align::left},
               {"layers", {}, Align::left},
               {"buffers"},
               {"size", "GiB"}});
  std::int64_t n_others = 0;
  Bytes others;
  for (const Holders& of : alive) {
    if (of.bytes / estimate.device.allocated < least) {
      n_others += of.n_buffers;
      others += of.bytes;
      continue;
    }
    table.row({std::string(memory_category_names[static_cast<std::size_t>(of.category)]),
               holder_name(estimate.schedule, of), layer_ranges(of.layers),
               std::to_string(of.n_buffers), "~" + gib(of.bytes)});
  }
  if (n_others > 0) table.row({"all others", "", "", std::to_string(n_others), "~" + gib(others)});
  table.row({"allocated", "", "", "", "~" + gib(estimate.device.allocated)});
  return table.text();
}

std::string price_table(std::string_view title, const std::vector<Price>& prices) {
  Table table({{std::string(title), {}, Align::left},
               {"saves", "GiB"},
               {"adds", "ms"},
               {"for a GiB", "ms"},
               {"in use", "GiB"},
               {"verdict", {}, Align::left}});
  for (const Price& price : prices)
    table.row({flags_text(price.change), "~" + gib(price.saved), "~" + signed_ms(price.added.value),
               "~" + signed_ms(price.seconds_per_gib()), "~" + gib(price.device.p50()),
               std::string(fit_names[static_cast<std::size_t>(price.fit)])});
  return table.text();
}

}  // namespace

std::string flags_text(const Change& change) {
  std::string text;
  for (const auto& [field, value] : change) {
    std::string flag = field;
    std::ranges::replace(flag, '_', '-');
    text += fmt::format("{}--{} {}", text.empty() ? "" : " ", flag, value);
  }
  return text;
}

std::string price_list_text(const Estimate& estimate, const PriceList& list) {
  std::string text = "\n" + alive_table(estimate, list.alive) + "\n";
  if (list.prices.empty()) return text + "nothing that was tried lowers the peak\n";
  text += price_table("what lowers it", list.prices);
  return text + "  saves: of what is allocated; adds: to a step of as many tokens per device\n";
}

std::string ways_to_fit_text(const PriceList& list) {
  if (list.ways_to_fit.empty()) return "";
  return "\n" + price_table("ways to fit, fastest first", list.ways_to_fit);
}

}  // namespace xt

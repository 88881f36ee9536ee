#include "costmodel/hardware/efficiency.h"

#include <fmt/format.h>

#include <algorithm>

namespace xt {
namespace {

constexpr std::array<std::string_view, 4> derived_axes = {"bytes", "flops", "rows_per_expert",
                                                          "mean_length"};

void report(Reader& reader, const std::optional<CurveProblem>& found) {
  if (found) reader.problem(fmt::format("points[{}]", found->point), found->message);
}

Curve plain(const RateCurve& rate) {
  Curve curve;
  for (const auto& [size, speed] : rate.points)
    curve.points.emplace_back(static_cast<double>(size.value), speed.value);
  return curve;
}

void require_points(Reader& reader, bool has_points) {
  if (!has_points) reader.problem("points", "a curve needs at least one point");
}

bool is_axis(Kernel kernel, std::string_view axis) {
  const KernelClass of = kernel_class(kernel);
  if (axis == "rows_per_expert") return of == KernelClass::grouped_matrix;
  if (axis == "mean_length")
    return kernel == Kernel::attention || kernel == Kernel::attention_backward;
  return std::ranges::find(derived_axes, axis) != derived_axes.end() ||
         extent_position(kernel, axis).has_value();
}

}  // namespace

std::optional<std::size_t> extent_position(Kernel kernel, std::string_view extent) {
  std::string_view rest = row(kernel).extents;
  for (std::size_t i = 0; !rest.empty(); ++i) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == extent) return i;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

void SourcedCurve::check(Reader& reader) const {
  require_points(reader, !curve.points.empty());
  report(reader, problem(curve));
}

void KernelEfficiency::check(Reader& reader) const {
  if (kernel_class(kernel) >= KernelClass::collective)
    reader.problem("kernel", fmt::format("`{}` computes nothing", name(kernel)),
                   "collectives and copies have their own keys");
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (!is_axis(kernel, axes[i]))
      reader.problem(fmt::format("axes[{}]", i),
                     fmt::format("`{}` is no extent of `{}`", axes[i], name(kernel)),
                     fmt::format("its extents are: {}", row(kernel).extents));
  if (axes.empty()) reader.problem("axes", "a kernel needs at least one axis");
  require_points(reader, !surface.points.empty());
  report(reader, problem(surface, axes.size()));
}

BytesPerSecond RateCurve::at(double bytes) const { return BytesPerSecond(plain(*this).at(bytes)); }

void RateCurve::check(Reader& reader) const {
  require_points(reader, !points.empty());
  report(reader, problem(plain(*this)));
}

void CollectiveEfficiency::check(Reader& reader) const {
  if (kernel_class(kernel) != KernelClass::collective || kernel == Kernel::exchange_counts ||
      kernel == Kernel::exchange_heads || kernel == Kernel::send_receive)
    reader.problem(
        "kernel", fmt::format("`{}` is no collective with a curve", name(kernel)),
        "write `all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all` or `broadcast`");
  rate.check(reader);
}

}  // namespace xt

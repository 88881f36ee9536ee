#include "executor/measure/cases.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "costmodel/cost/demand.h"
#include "costmodel/diagnostics/check.h"
#include "costmodel/hardware/efficiency.h"

namespace xt {
namespace {

using Row = std::vector<std::int64_t>;
using Grid = std::vector<Row>;  // per axis, the values along it

// A call longer than this only repeats what shorter ones say.
double largest_call_flops(Coverage coverage) {
  if (coverage == Coverage::large) return 5e12;
  return coverage == Coverage::quick ? 3e9 : 5e9;
}

Work work_of(Kernel kernel, DType dtype, const Row& extents) {
  Work work{kernel, dtype, Group::none, {}};
  XT_CHECK(extents.size() <= work.extents.size(), extents.size());
  std::copy(extents.begin(), extents.end(), work.extents.begin());
  return work;
}

// Extents of a kernel from a place on its axes.
using Extents = std::function<Row(const Row&)>;

Row as_given(const Row& place) { return place; }

// Documents of equal length fill a pack; two query heads share a key head.
Row attention_extents(const Row& place) {
  const std::int64_t length = place[0], tokens = std::max<std::int64_t>(512, length);
  return {tokens, 2, 1, place[1], tokens * length, length, tokens};
}

Row grouped_extents(const Row& place) {
  constexpr std::int64_t experts = 4;
  return {place[0] * experts, place[1], place[2], experts};
}

Row regroup_extents(const Row& place) { return {place[0], place[1], 2, place[2]}; }

Row cast_extents(const Row& place) { return {place[0], 8}; }  // fp32 read and written

Row balance_extents(const Row& place) { return {place[0], place[1], 1, 1, place[0]}; }

Row count_extents(const Row& place) { return {place[0], place[1], place[2], place[0]}; }

Row column_extents(const Row& place) {
  return {place[0], place[1], 0, place[0], place[1], 0, place[1]};
}

Row swiglu_extents(const Row& place) { return {place[0] / (3 * 512 * 4), 512}; }

// How one kernel is measured. Axes along which a grid has one value are left out.
struct Plan {
  Kernel kernel;
  std::vector<std::string> axes;
  Row smallest;  // extents
  Grid quick;
  Grid full;
  Extents extents = as_given;
  Grid large = {};  // none: grown from the full one
};

std::vector<Plan> products() {
  const Grid quick = {{256, 1024, 4096}, {8, 128, 256, 2048}, {256, 1024}};
  const Grid full = {{64, 256, 1024, 4096}, {8, 64, 256, 1024, 4096, 32768}, {64, 256, 1024, 4096}};
  const Grid large = {
      {128, 512, 2048, 8192, 32768}, {128, 1024, 4096, 32768}, {128, 1024, 4096, 16384}};
  std::vector<Plan> plans;
  for (const Kernel kernel :
       {Kernel::matmul, Kernel::matmul_input_backward, Kernel::matmul_input_backward_add,
        Kernel::matmul_weight_backward, Kernel::matmul_weight_backward_add})
    plans.push_back({kernel, {"m", "n", "k"}, {1, 8, 8}, quick, full, as_given, large});
  const Grid sides = {{64, 256, 512}, {64, 256, 512}},
             long_sides = {{512, 2048, 8192}, {512, 2048, 8192}};
  plans.push_back({Kernel::orthogonalise, {"m", "n"}, {8, 8}, sides, sides, as_given, long_sides});
  return plans;
}

std::vector<Plan> grouped_products() {
  const Grid quick = {{32, 128, 512}, {256, 1024}, {256, 512}};
  const Grid full = {{4, 16, 64, 256, 1024}, {64, 256, 1024, 2048}, {64, 256, 1024}};
  const Grid large = {{64, 256, 1024, 4096}, {512, 1024, 4096}, {512, 1024, 4096}};
  std::vector<Plan> plans;
  for (const Kernel kernel : {Kernel::grouped_matmul, Kernel::grouped_matmul_input_backward,
                              Kernel::grouped_matmul_weight_backward})
    plans.push_back(
        {kernel, {"rows_per_expert", "n", "k"}, {4, 8, 8, 4}, quick, full, grouped_extents, large});
  return plans;
}

std::vector<Plan> attentions() {
  const Grid quick = {{16, 32, 64, 128, 256, 512, 1024, 2048}, {64}};
  const Grid full = {{16, 32, 64, 128, 256, 512, 1024, 2048}, {32, 64, 128}};
  const Grid large = {{128, 512, 1024, 2048, 4096, 8192, 16384}, {64, 128}};
  const Row smallest = {1, 1, 1, 8, 1, 1, 1};
  const std::vector<std::string> axes = {"mean_length", "D"};
  return {{Kernel::attention, axes, smallest, quick, full, attention_extents, large},
          {Kernel::attention_backward, axes, smallest, quick, full, attention_extents, large}};
}

std::vector<Plan> layer_kernels() {
  const std::vector<std::string> norm_axes = {"T", "E"}, ffn_axes = {"T", "F"},
                                 rope_axes = {"T", "H", "D"}, embedding_axes = {"T", "E", "V"};
  const Grid norm_quick = {{512, 2048, 8192}, {64, 256}};
  const Grid norm_full = {{256, 1024, 4096, 16384}, {64, 256, 1024}};
  const Grid rope_quick = {{512, 2048, 4096}, {2, 4}, {64}};
  const Grid rope_full = {{256, 1024, 4096}, {2, 8, 32}, {64, 128}};
  const Grid embedding_quick = {{512, 2048, 4096}, {256}, {256}};
  const Grid embedding_full = {{256, 1024, 4096}, {64, 256, 1024}, {256, 8192}};
  std::vector<std::int64_t> swiglu_bytes;  // a row of 512 takes 6 KiB
  for (const std::int64_t rows : {16, 64, 256, 1024, 4096})
    swiglu_bytes.push_back(rows * 3 * 512 * 4);
  const Grid swiglu = {swiglu_bytes};
  Grid swiglu_backward = swiglu;
  for (std::int64_t& bytes : swiglu_backward[0]) bytes = bytes / 3 * 5;
  const auto backward_extents = [](const Row& place) { return Row{place[0] / (5 * 512 * 4), 512}; };
  return {
      {Kernel::rms_norm, norm_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::rms_norm_backward, norm_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::layer_norm, norm_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::layer_norm_backward, norm_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::silu_multiply, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::silu_multiply_backward, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::sum_rows, {"R", "n"}, {1, 8}, norm_quick, norm_full},
      {Kernel::sum_expert_rows,
       {"R", "n", "X"},
       {1, 8, 1},
       {norm_quick[0], norm_quick[1], {4}},
       {norm_full[0], norm_full[1], {4}}},
      {Kernel::copy_columns,
       {"R", "n"},
       {1, 8, 0, 1, 8, 0, 8},
       norm_quick,
       norm_full,
       column_extents},
      {Kernel::add_columns,
       {"R", "n"},
       {1, 8, 0, 1, 8, 0, 8},
       norm_quick,
       norm_full,
       column_extents},
      {Kernel::sinks_backward, rope_axes, {1, 1, 8}, rope_quick, rope_full},
      {Kernel::swiglu_clamped, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::swiglu_clamped_backward, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::gelu, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::gelu_backward, ffn_axes, {1, 8}, norm_quick, norm_full},
      {Kernel::rope_table,
       {"T", "D"},
       {1, 8},
       {{512, 2048, 4096}, {64}},
       {{256, 1024, 4096}, {64, 128}}},
      {Kernel::rope, rope_axes, {1, 1, 8}, rope_quick, rope_full},
      {Kernel::rope_backward, rope_axes, {1, 1, 8}, rope_quick, rope_full},
      {Kernel::embedding, embedding_axes, {1, 8, 16}, embedding_quick, embedding_full},
      {Kernel::embedding_backward, embedding_axes, {1, 8, 16}, embedding_quick, embedding_full},
      {Kernel::swiglu, {"bytes"}, {1, 8}, swiglu, swiglu, swiglu_extents},
      {Kernel::swiglu_backward,
       {"bytes"},
       {1, 8},
       swiglu_backward,
       swiglu_backward,
       backward_extents},
      {Kernel::cross_entropy,
       {"C", "V"},
       {1, 8},
       {{256, 1024, 4096}, {256}},
       {{64, 256, 1024, 4096}, {256, 4096, 32768}}},
  };
}

std::vector<Plan> routing_kernels() {
  const std::vector<std::string> axes = {"T", "X", "k"}, row_axes = {"T", "E", "k"};
  const Grid quick = {{512, 2048, 4096}, {8, 16}, {1, 2, 4}};
  const Grid full = {{256, 1024, 4096}, {8, 32, 128}, {1, 2, 8}};
  const Grid row_quick = {{512, 1024, 2048, 4096}, {256}, {2}};
  const Grid row_full = {{256, 1024, 4096}, {64, 256, 1024}, {1, 2, 8}};
  std::vector<Plan> plans;
  for (const Kernel kernel :
       {Kernel::softmax_top_k, Kernel::softmax_top_k_backward, Kernel::sigmoid_top_k,
        Kernel::sigmoid_top_k_backward, Kernel::sort_rows})
    plans.push_back({kernel, axes, {1, 2, 1}, quick, full});
  plans.push_back({Kernel::balance_backward,
                   {"T", "X"},
                   {1, 2, 1, 1, 1},
                   {quick[0], quick[1]},
                   {full[0], full[1]},
                   balance_extents});
  plans.push_back({Kernel::count_rows, axes, {1, 2, 1, 1}, quick, full, count_extents});
  const Grid experts = {{8, 64, 256, 512}};
  plans.push_back({Kernel::update_router_bias, {"X"}, {1}, experts, experts});
  for (const Kernel kernel : {Kernel::permute, Kernel::permute_backward_add, Kernel::unpermute,
                              Kernel::unpermute_backward})
    plans.push_back({kernel, row_axes, {1, 8, 1}, row_quick, row_full});
  for (const Kernel kernel : {Kernel::regroup, Kernel::ungroup})
    plans.push_back({kernel,
                     {"R", "E", "X"},
                     {4, 8, 2, 2},
                     {{512, 2048, 4096, 8192}, {256}, {4}},
                     {{256, 1024, 4096, 16384}, {64, 256, 1024}, {2, 8, 32}},
                     regroup_extents});
  return plans;
}

std::vector<Plan> flat_kernels() {
  const Grid quick = {{4096, 65536, 262144, 1048576, 4194304}};
  const Grid full = {{1024, 4096, 16384, 65536, 262144, 1048576, 4194304}};
  std::vector<Plan> plans;
  for (const Kernel kernel : {Kernel::add, Kernel::fill_zero, Kernel::square_sum, Kernel::clip,
                              Kernel::adamw, Kernel::muon_momentum, Kernel::muon_update,
                              Kernel::sum, Kernel::silu, Kernel::silu_backward, Kernel::multiply})
    plans.push_back({kernel, {"elements"}, {1}, quick, full});
  plans.push_back({Kernel::cast, {"n"}, {1, 8}, quick, full, cast_extents});
  return plans;
}

Grid places(const Grid& grid) {
  Grid result = {{}};
  for (const Row& values : grid) {
    Grid longer;
    for (const Row& place : result)
      for (const std::int64_t value : values) {
        longer.push_back(place);
        longer.back().push_back(value);
      }
    result = std::move(longer);
  }
  return result;
}

bool is_affordable(const Work& work, Coverage coverage) {
  constexpr std::array choices = {Kernel::softmax_top_k, Kernel::softmax_top_k_backward,
                                  Kernel::sigmoid_top_k, Kernel::sigmoid_top_k_backward,
                                  Kernel::sort_rows};
  const bool is_choice = std::ranges::find(choices, work.kernel) != choices.end();
  if (is_choice && work.extents[2].code > work.extents[1].code) return false;
  return hardware_flops(work, {}).value <= largest_call_flops(coverage) &&
         memory_traffic(work, {}).value <= largest_call_bytes(coverage);
}

// Whether operands have one type whatever layers compute in.
bool has_one_type(Kernel kernel) {
  switch (kernel) {
    case Kernel::rope_table:
    case Kernel::sort_rows:
    case Kernel::fill_zero:
    case Kernel::cast:
    case Kernel::square_sum:
    case Kernel::clip:
    case Kernel::adamw:
    case Kernel::muon_momentum:
    case Kernel::orthogonalise:
    case Kernel::muon_update:
      return true;
    default:
      return false;
  }
}

// More rows, tokens or elements, and wider ones; experts, heads and their sizes stay.
Grid grown(const Plan& plan) {
  Grid grid = plan.full;
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const std::string& axis = plan.axes[i];
    const bool is_width = axis == "E" || axis == "F" || axis == "n";
    const std::int64_t times = axis == "X" ? 1 : i == 0 ? 16 : is_width ? 4 : 1;
    for (std::int64_t& value : grid[i]) value *= times;
  }
  return grid;
}

Grid grid_of(const Plan& plan, Coverage coverage) {
  if (coverage == Coverage::quick) return plan.quick;
  if (coverage == Coverage::full) return plan.full;
  return plan.large.empty() ? grown(plan) : plan.large;
}

// A large machine is busy with many heads and tokens only.
Row extents_of(const Plan& plan, const Row& place, Coverage coverage) {
  Row extents = plan.extents(place);
  if (coverage != Coverage::large || kernel_class(plan.kernel) != KernelClass::attention)
    return extents;
  constexpr std::int64_t tokens = 16384, heads = 16;
  return {tokens, heads, heads / 2, place[1], tokens * place[0], place[0], tokens};
}

KernelCases cases_of(const Plan& plan, Coverage coverage, DType dtype) {
  const Grid grid = grid_of(plan, coverage);
  KernelCases cases{plan.kernel, {}, work_of(plan.kernel, dtype, plan.smallest), {}};
  for (std::size_t i = 0; i < plan.axes.size(); ++i)
    if (grid[i].size() > 1) cases.axes.push_back(plan.axes[i]);
  XT_CHECK(!cases.axes.empty(), name(plan.kernel));
  for (const Row& place : places(grid)) {
    const Work work = work_of(plan.kernel, dtype, extents_of(plan, place, coverage));
    if (is_affordable(work, coverage)) cases.points.push_back(work);
  }
  return cases;
}

}  // namespace

std::vector<KernelCases> kernel_cases(Coverage coverage, DType dtype) {
  std::vector<KernelCases> all;
  for (const auto& group : {products(), grouped_products(), attentions(), layer_kernels(),
                            routing_kernels(), flat_kernels()})
    for (const Plan& plan : group)
      if (dtype == DType::fp32 || !has_one_type(plan.kernel))
        all.push_back(cases_of(plan, coverage, dtype));
  return all;
}

std::vector<double> coordinates(const Work& work, const std::vector<std::string>& axes) {
  const auto extent = [&](std::size_t i) { return static_cast<double>(work.extent(i, {})); };
  std::vector<double> place;
  for (const std::string& axis : axes) {
    if (axis == "bytes") {
      place.push_back(static_cast<double>(memory_traffic(work, {}).value));
    } else if (axis == "rows_per_expert") {
      place.push_back(extent(0) / extent(3));
    } else if (axis == "mean_length") {
      place.push_back(extent(4) / extent(0));
    } else {
      const auto position = extent_position(work.kernel, axis);
      XT_CHECK(position, axis, name(work.kernel));
      place.push_back(extent(*position));
    }
  }
  return place;
}

}  // namespace xt

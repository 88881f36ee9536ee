#include "executor/measure/operands.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "costmodel/diagnostics/check.h"
#include "costmodel/hardware/efficiency.h"
#include "executor/runtime/tensors.h"

namespace xt {
namespace {

constexpr std::int64_t alignment = 64;

// Positions start again with every document; far ones take longer to make angles of.
constexpr std::int64_t document_length = 512;

std::int64_t extent_named(const Work& work, std::string_view letter) {
  if (const auto position = extent_position(work.kernel, letter)) return work.extent(*position, {});
  if (letter == "R") return extent_named(work, "T") * extent_named(work, "k");
  XT_CHECK(letter == "ep", letter, name(work.kernel));
  return 1;
}

// A factor of a dimension: `2F` is twice F.
std::int64_t factor(const Work& work, std::string_view text) {
  std::int64_t number = 1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return extent_named(work, text);
  if (rest == end) return number;
  return number * extent_named(work, std::string_view(rest, static_cast<std::size_t>(end - rest)));
}

// Elements of a role written as `y[T,2F]`, `order[T*k]`, or without dimensions.
std::int64_t elements_of(const Work& work, std::string_view role) {
  const std::size_t open = role.find('[');
  if (role.starts_with("boundaries")) return work.extent(0, {}) + 1;
  if (open == std::string_view::npos) return work.extent(0, {});
  std::string_view dimensions = role.substr(open + 1, role.find(']') - open - 1);
  std::int64_t elements = 1;
  while (!dimensions.empty()) {
    const std::size_t end = std::min(dimensions.find_first_of(",*"), dimensions.size());
    elements *= factor(work, dimensions.substr(0, end));
    dimensions.remove_prefix(std::min(end + 1, dimensions.size()));
  }
  return elements;
}

bool is_any(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// Angles, statistics of norms and attention, weights of experts and sums are fp32 everywhere.
at::ScalarType type_of(const Work& work, std::string_view role) {
  if (is_any(role, {"tokens", "labels", "positions", "indices", "order", "counts"}))
    return at::kLong;
  if (role == "boundaries") return at::kInt;
  if (is_any(role, {"table", "rstd", "moments", "lse", "weights", "dweights", "valid_tokens",
                    "loss", "sum", "load", "router_bias"}))
    return at::kFloat;
  return scalar_type(work.dtype);
}

std::int64_t below(std::int64_t n, std::mt19937_64& random) {
  return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
}

template <typename Next>
at::Tensor filled(std::int64_t n, const Next& next) {
  at::Tensor tensor = at::empty({n}, at::kLong);
  auto* values = tensor.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) values[i] = next(i);
  return tensor;
}

at::Tensor chosen_experts(std::int64_t tokens, std::int64_t experts, std::int64_t k,
                          std::mt19937_64& random) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  at::Tensor indices = at::empty({tokens * k}, at::kLong);
  auto* chosen = indices.mutable_data_ptr<std::int64_t>();
  for (std::int64_t token = 0; token < tokens; ++token)
    for (std::int64_t j = 0; j < k; ++j) {
      std::swap(all[static_cast<std::size_t>(j)],
                all[static_cast<std::size_t>(j + below(experts - j, random))]);
      *chosen++ = all[static_cast<std::size_t>(j)];
    }
  return indices;
}

// Slots sorted by the expert that each was sent to.
at::Tensor sorted_slots(std::int64_t slots, std::mt19937_64& random) {
  constexpr std::int64_t experts = 8;
  std::vector<std::vector<std::int64_t>> slots_of(experts);
  for (std::int64_t slot = 0; slot < slots; ++slot)
    slots_of[static_cast<std::size_t>(below(experts, random))].push_back(slot);
  at::Tensor order = at::empty({slots}, at::kLong);
  auto* next = order.mutable_data_ptr<std::int64_t>();
  for (const auto& of_expert : slots_of) next = std::ranges::copy(of_expert, next).out;
  return order;
}

// Rows of each expert when every row chooses at random.
at::Tensor random_counts(std::int64_t rows, std::int64_t entries, std::mt19937_64& random) {
  at::Tensor counts = at::zeros({entries}, at::kLong);
  auto* count = counts.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) ++count[below(entries, random)];
  return counts;
}

// Documents as long as the mean attended length.
at::Tensor equal_documents(const Work& work) {
  const std::int64_t tokens = work.extent(0, {}), length = work.extent(5, {});
  at::Tensor boundaries = at::full({tokens + 1}, tokens, at::kInt);
  auto* boundary = boundaries.mutable_data_ptr<std::int32_t>();
  for (std::int64_t begin = 0; begin < tokens; begin += length)
    *boundary++ = static_cast<std::int32_t>(begin);
  return boundaries;
}

// What stands in operands that are no plain numbers; nothing for those that are.
at::Tensor indices_for(const Work& work, const Operand& operand, std::mt19937_64& random) {
  const std::string_view role = operand.role;
  if (role == "tokens")
    return filled(operand.elements, [&](auto) { return below(extent_named(work, "V"), random); });
  if (role == "labels")
    return filled(operand.elements, [&](auto) { return below(extent_named(work, "V"), random); });
  if (role == "positions")
    return filled(operand.elements, [](auto i) { return i % document_length; });
  if (role == "indices")
    return chosen_experts(extent_named(work, "T"), extent_named(work, "X"), extent_named(work, "k"),
                          random);
  if (role == "order") return sorted_slots(operand.elements, random);
  if (role == "counts") return random_counts(extent_named(work, "R"), operand.elements, random);
  if (role == "boundaries") return equal_documents(work);
  if (role == "valid_tokens")
    return at::full({1}, static_cast<double>(work.extent(0, {})), at::kFloat);
  if (role == "sum") return at::full({1}, 1.02, at::kFloat);  // just above: clipping has an effect
  return {};
}

std::vector<Operand> operands_in(const Work& work, std::string_view roles, bool are_inputs,
                                 std::mt19937_64& random) {
  std::vector<Operand> operands;
  while (!roles.empty()) {
    const std::size_t end = std::min(roles.find(' '), roles.size());
    const std::string_view role = roles.substr(0, end);
    roles.remove_prefix(std::min(end + 1, roles.size()));
    if (role.ends_with('?')) continue;
    Operand operand;
    operand.role = role.substr(0, role.find_first_of("[!"));
    operand.elements = elements_of(work, role);
    operand.type = type_of(work, operand.role);
    operand.is_in_place = role.ends_with('!');
    if (are_inputs) operand.indices = indices_for(work, operand, random);
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::int64_t padded(const Operand& operand) {
  return (operand.bytes() + alignment - 1) / alignment * alignment;
}

}  // namespace

std::int64_t Operand::bytes() const {
  return elements * static_cast<std::int64_t>(c10::elementSize(type));
}

Operands operands_of(const Work& work, std::mt19937_64& random) {
  const KernelRow& of = row(work.kernel);
  return {operands_in(work, of.inputs, true, random), operands_in(work, of.outputs, false, random)};
}

Ring::Ring(std::int64_t bytes, std::int64_t ring_bytes, std::uint64_t seed, c10::Device place)
    : ring_bytes_(ring_bytes) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  read_.memory = at::empty({bytes / 4}, at::kFloat).normal_(0, 1, generator).to(place);
  written_.memory = read_.memory.clone();
}

std::vector<void*> Ring::take(Part& part, const std::vector<Operand>& operands,
                              std::int64_t ring_bytes) {
  std::int64_t needed = 0;
  for (const Operand& operand : operands)
    if (!operand.indices.defined()) needed += padded(operand);
  const auto whole = static_cast<std::int64_t>(part.memory.nbytes());
  XT_CHECK(needed <= whole, needed, whole);
  if (part.at + needed > std::min(whole, std::max(ring_bytes, needed))) part.at = 0;
  std::vector<void*> places;
  for (const Operand& operand : operands) {
    if (operand.indices.defined()) {
      places.push_back(operand.indices.data_ptr());
      continue;
    }
    places.push_back(static_cast<std::byte*>(part.memory.data_ptr()) + part.at);
    part.at += padded(operand);
  }
  return places;
}

Ring::Call Ring::next(const Operands& operands) {
  return {take(read_, operands.inputs, ring_bytes_), take(written_, operands.outputs, ring_bytes_)};
}

// A second moment is never negative; the other operands of its kernel do not mind.
void Ring::refresh(const Operands& operands) {
  std::int64_t needed = 0;
  bool is_positive = false;
  for (const Operand& operand : operands.outputs) {
    if (!operand.is_in_place) continue;
    needed += padded(operand);
    is_positive = is_positive || operand.role == "exp_avg_sq";
  }
  if (needed == 0) return;
  const std::int64_t n = std::min(std::max(needed, ring_bytes_) / 4, read_.memory.numel());
  written_.memory.narrow(0, 0, n).copy_(read_.memory.narrow(0, 0, n));
  if (is_positive) written_.memory.narrow(0, 0, n).abs_();
}

std::vector<at::Tensor> tensors_at(const std::vector<Operand>& operands,
                                   const std::vector<void*>& places, c10::Device device) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    tensors.push_back(at::from_blob(places[i], {operands[i].elements, 1, 1},
                                    at::TensorOptions().dtype(operands[i].type).device(device)));
  return tensors;
}

Operands on_device(Operands operands, c10::Device device) {
  for (auto* list : {&operands.inputs, &operands.outputs})
    for (Operand& operand : *list)
      if (operand.indices.defined()) operand.indices = operand.indices.to(device);
  return operands;
}

}  // namespace xt

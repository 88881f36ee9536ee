#include "tests/fuzz/readers.h"

#include <array>
#include <ostream>
#include <string>

#include "costmodel/diagnostics/check.h"
#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/hardware/profile.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/plan_file.h"
#include "costmodel/io/safetensors_header.h"
#include "costmodel/io/schedule_lines.h"
#include "costmodel/io/token_index.h"
#include "costmodel/io/yaml.h"
#include "costmodel/ir/verify.h"
#include "costmodel/models/config.h"
#include "costmodel/models/decoder.h"
#include "planner/plan/run_file.h"
#include "planner/validate/row_plan.h"
#include "planner/validate/validate.h"

namespace xt {
namespace {

const std::string path = "file";

SourceText source(std::string_view bytes) { return {path, std::string(bytes)}; }

void read_safetensors(std::string_view bytes) {
  (void)parse_safetensors(path, std::as_bytes(std::span(bytes)));
}

void read_index(std::string_view bytes) {
  (void)parse_token_index(path, std::as_bytes(std::span(bytes)));
}

void read_plan_file(std::string_view bytes) { (void)parse_plan(source(bytes)); }

/// `bytes` with the digest that the reader found in the place of the one that they claim, so that a
/// fuzzer gets past it.
std::string with_digest(std::string_view bytes, std::string_view refusal) {
  constexpr std::string_view found = "its digest is ", claimed = "but it claims ";
  const std::size_t at = refusal.find(found);
  if (at == std::string_view::npos) return {};
  const std::string_view digest = refusal.substr(at + found.size(), 16);
  std::string_view wrong = refusal.substr(refusal.find(claimed) + claimed.size());
  wrong = wrong.substr(0, wrong.find('\n'));
  std::string text(bytes);
  const std::size_t begin = text.find(wrong);
  return begin == std::string::npos ? text : text.replace(begin, wrong.size(), digest);
}

void read_schedule_lines(std::string_view bytes) {
  try {
    (void)verify(parse_schedule_lines(path, bytes));
  } catch (const InputError& error) {
    const std::string text = with_digest(bytes, error.what());
    if (text.empty()) throw;
    (void)verify(parse_schedule_lines(path, text));
  }
}

void read_run_file(std::string_view bytes) { (void)read<RunFile>(parse_yaml(source(bytes))); }

void read_profile(std::string_view bytes) { (void)read<Profile>(parse_yaml(source(bytes))); }

void read_model(std::string_view bytes) {
  const auto config = read<ModelConfig>(parse_json_document(source(bytes)));
  (void)build_decoder(config.architecture, {});
}

bool is_cheap(const Plan& plan) {
  return plan.architecture.num_hidden_layers <= 16 && plan.strategy.gradient_accumulation <= 8;
}

Profiles all_profiles() {
  const Catalogue catalogue{XT_DATA_ROOT};
  Profiles profiles;
  for (const std::string& name : catalogue.machine_names())
    profiles.emplace(name, catalogue.machine(name));
  return profiles;
}

// Rows are priced too: whatever they say, there is a plan or a reason.
void read_published_rows(std::string_view bytes) {
  const std::vector<PublishedRow> rows = parse_published(source(bytes));
  static const Profiles profiles = all_profiles();
  for (const PublishedRow& row : rows) {
    const RowPlan priced = plan_of(row, profiles);
    if (priced.plan && is_cheap(*priced.plan)) (void)predict(row, *priced.plan);
  }
}

constexpr std::array<FuzzedReader, 8> readers = {{{"safetensors", read_safetensors},
                                                  {"token_index", read_index},
                                                  {"plan", read_plan_file},
                                                  {"schedule", read_schedule_lines},
                                                  {"run_file", read_run_file},
                                                  {"profile", read_profile},
                                                  {"model_config", read_model},
                                                  {"published_rows", read_published_rows}}};

}  // namespace

void PrintTo(const FuzzedReader& reader, std::ostream* out) { *out << reader.name; }

std::span<const FuzzedReader> fuzzed_readers() { return readers; }

bool accepts(const FuzzedReader& reader, std::string_view bytes) {
  try {
    reader.read(bytes);
    return true;
  } catch (const InputError& error) {
    XT_CHECK(!error.problems().empty() && !render(error).empty(), reader.name);
    return false;
  }
}

}  // namespace xt

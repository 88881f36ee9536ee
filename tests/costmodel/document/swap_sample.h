#pragma once

// A struct with one field of every shape, for the tests of the archives.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/document/reader.h"

namespace xt {

inline constexpr std::array<std::string_view, 2> sample_policies = {"none", "swap_greedy_layer"};

/// "auto" or a number of tokens.
struct ChunkSize {
  std::optional<std::int64_t> tokens;

  static constexpr std::string_view type_name = "`auto` or a number of tokens";
  static Parsed<ChunkSize> from_text(std::string_view text) {
    if (text == "auto") return {ChunkSize{}};
    const auto number = parse_integer(text);
    if (!number.value) return Parsed<ChunkSize>::failed(number.problem, "write `auto` or 512");
    return {ChunkSize{*number.value}};
  }
  [[nodiscard]] std::string text() const { return tokens ? std::to_string(*tokens) : "auto"; }
  bool operator==(const ChunkSize&) const = default;
};

/// One link of a sample machine.
struct SampleLink {
  BytesPerSecond rate;
  Seconds latency;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("rate", rate, "Bytes a second in one direction").above(BytesPerSecond(0));
    archive.field("latency", latency, "Time of an empty message");
  }
  auto operator<=>(const SampleLink&) const = default;
};

/// A sample run.
struct Sample {
  std::string policy;
  Bytes budget;
  int prefetch_layers = 1;
  double keep_ratio = 1;
  bool is_async = false;
  DType dtype = DType::bf16;
  ChunkSize chunk_size;
  std::vector<int> layers;
  std::vector<std::pair<std::int64_t, double>> curve;
  std::optional<std::string> note;
  Named<SampleLink> links;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("policy", policy, "How to choose what leaves the device").one_of(sample_policies);
    archive.field("budget", budget, "Device memory a step may use at its peak");
    archive.field("prefetch_layers", prefetch_layers, "Layers fetched ahead")
        .optional()
        .at_least(1);
    archive.field("keep_ratio", keep_ratio, "Part kept").optional().at_least(0).at_most(1);
    archive.field("is_async", is_async, "Copies beside compute").optional();
    archive.field("dtype", dtype, "Type of what is swapped").optional();
    archive.field("chunk_size", chunk_size, "Tokens in a chunk").optional();
    archive.field("layers", layers, "Layers to swap").optional().at_least(0);
    archive.field("curve", curve, "Size and ratio").optional();
    archive.field("note", note, "Free text");
    archive.field("links", links, "Links by name").optional();
  }
  void check(Reader& reader) const {
    if (static_cast<int>(layers.size()) < prefetch_layers && !layers.empty())
      reader.problem("prefetch_layers", "fetches more layers than are swapped",
                     "`layers` at line " + std::to_string(reader.line_of("layers")));
  }
  bool operator==(const Sample&) const = default;
};

}  // namespace xt

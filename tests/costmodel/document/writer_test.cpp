#include "costmodel/document/writer.h"

#include <gtest/gtest.h>

#include <string>

#include "costmodel/document/reference.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/yaml.h"
#include "tests/costmodel/document/swap_sample.h"

namespace xt {
namespace {

using namespace literals;

Sample full_sample() {
  Sample sample;
  sample.policy = "none";
  sample.budget = 40_GiB;
  sample.keep_ratio = 0.1;
  sample.dtype = DType::fp8;
  sample.layers = {1, 2};
  sample.curve = {{1024, 0.5}, {4096, 0.75}};
  sample.note = "2: a # b";
  sample.links.entries = {{"nvlink", {BytesPerSecond(4e11), Seconds(2e-6)}},
                          {"host", {BytesPerSecond(6.4e10), Seconds(1e-5)}}};
  return sample;
}

TEST(Writer, WritesWhatTheReaderReadsBack) {
  const Sample sample = full_sample();
  const std::string yaml = to_yaml(write(sample));
  EXPECT_EQ(read<Sample>(parse_yaml({"a.yaml", yaml})), sample) << yaml;
  const std::string json = to_json(write(sample)).pretty();
  EXPECT_EQ(read<Sample>(parse_json_document({"a.json", json})), sample) << json;
}

TEST(Writer, KeepsTheOrderOfFieldsAndPrintsUnits) {
  EXPECT_EQ(to_yaml(write(full_sample())),
            "policy: none\n"
            "budget: 40 GiB\n"
            "prefetch_layers: 1\n"
            "keep_ratio: 0.1\n"
            "is_async: false\n"
            "dtype: fp8\n"
            "chunk_size: auto\n"
            "layers: [1, 2]\n"
            "curve: [[1024, 0.5], [4096, 0.75]]\n"
            "note: \"2: a # b\"\n"
            "links:\n"
            "  nvlink:\n"
            "    rate: 400 GB/s\n"
            "    latency: 2 us\n"
            "  host:\n"
            "    rate: 64 GB/s\n"
            "    latency: 10 us\n");
}

TEST(Reference, ListsKeysWithTypesLimitsAndMeaning) {
  const std::string text = markdown(reference<Sample>());
  for (const std::string row :
       {"| `policy` | one of `none`, `swap_greedy_layer` | How to choose what leaves the device |",
        "| `budget` | bytes, such as `40 GiB` | Device memory a step may use at its peak |",
        "| `prefetch_layers` | a whole number, at least 1; `1` when left out | Layers fetched",
        "| `curve` | list: two values: a whole number; a number; may be left out | Size and",
        "| `note` | text; may be left out | Free text |",
        "| `links` | map by name: map; may be left out | Links by name |",
        "| `links.NAME.rate` | bytes per second, such as `64 GB/s`, above 0 B/s | Bytes a second"})
    EXPECT_NE(text.find(row), std::string::npos) << row << "\nin\n" << text;
}

}  // namespace
}  // namespace xt

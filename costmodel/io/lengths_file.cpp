#include "costmodel/io/lengths_file.h"

#include <fmt/format.h>

#include <map>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/reader.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/json_lines.h"
#include "costmodel/io/token_index.h"

namespace xt {
namespace {

struct LengthsFile {
  std::string schema;
  std::vector<std::pair<std::int64_t, double>> lengths;

  template <typename Archive>
  void describe(Archive& archive) {
    archive.field("schema", schema, "Format of this file").one_of(std::array{"xt.lengths/1"});
    archive.field("lengths", lengths, "Tokens of a sample, ascending, and how many have so many");
  }
  void check(Reader& reader) const {
    if (const auto what = problem(LengthHistogram{lengths})) reader.problem("lengths", *what);
  }
};

using Counts = std::map<std::int64_t, double>;

Counts counted_lines(const std::filesystem::path& path) {
  Counts counts;
  for_each_json_line(path, [&](const Json& line) {
    const std::int64_t tokens = line.at("num_tokens").as_int();
    if (tokens < 1) throw JsonError(fmt::format("num_tokens is {}, must be at least 1", tokens));
    if (tokens > longest_length)
      throw JsonError(fmt::format("num_tokens is {}, must be at most {}", tokens, longest_length));
    counts[tokens] += 1;
  });
  return counts;
}

Counts counted_documents(const std::filesystem::path& path) {
  const std::vector<std::int64_t> starts = read_token_index(path).starts;
  Counts counts;
  for (std::size_t i = 1; i < starts.size(); ++i) counts[starts[i] - starts[i - 1]] += 1;
  return counts;
}

LengthHistogram histogram(const std::filesystem::path& path, const Counts& counts) {
  if (counts.empty()) throw InputError({error_in(path.string(), "has no samples")});
  return {{counts.begin(), counts.end()}};
}

LengthHistogram read_histogram(const std::filesystem::path& path) {
  const Document document = read_json(path);
  if (document.root.kind == Node::Kind::list)
    throw InputError(
        {error_in(path.string(), "is a list, expected a map",
                  "write {\"schema\": \"xt.lengths/1\", \"lengths\": [[tokens, count], ...]}")});
  return {read<LengthsFile>(document).lengths};
}

}  // namespace

LengthHistogram read_lengths(const std::filesystem::path& path) {
  if (path.extension() == ".jsonl") return histogram(path, counted_lines(path));
  if (path.extension() == ".idx") return histogram(path, counted_documents(path));
  if (path.extension() == ".json") return read_histogram(path);
  throw InputError(
      {error_in(path.string(), "is not a .json, .jsonl or .idx file",
                "a histogram is a .json file with schema xt.lengths/1; a .jsonl file "
                "has one sample a line, with the key num_tokens; an .idx file is Megatron's")});
}

}  // namespace xt

#include "executor/data/bigram_entropy.h"

#include <cmath>
#include <unordered_map>

namespace xt {

double bigram_entropy(const Documents& documents) {
  std::unordered_map<std::uint64_t, std::int64_t> pairs;
  std::unordered_map<std::int64_t, std::int64_t> firsts;
  std::vector<std::int64_t> tokens;
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    tokens.resize(static_cast<std::size_t>(documents.length(i)));
    documents.copy(i, 0, tokens);
    for (std::size_t j = 1; j < tokens.size(); ++j) {
      const auto first = static_cast<std::uint64_t>(tokens[j - 1]);
      ++pairs[first << 32 | static_cast<std::uint64_t>(tokens[j])];
      ++firsts[tokens[j - 1]];
      ++n;
    }
  }
  double sum = 0;
  for (const auto& [pair, count] : pairs) {
    const auto first = static_cast<double>(firsts[static_cast<std::int64_t>(pair >> 32)]);
    sum -= static_cast<double>(count) * std::log(static_cast<double>(count) / first);
  }
  return n == 0 ? 0 : sum / static_cast<double>(n);
}

}  // namespace xt

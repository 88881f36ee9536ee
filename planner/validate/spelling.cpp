#include "planner/validate/spelling.h"

#include <algorithm>
#include <cctype>

namespace xt {
namespace {

enum class Kind { letter, digit, other };

Kind kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (std::isalpha(byte) != 0) return Kind::letter;
  return std::isdigit(byte) != 0 ? Kind::digit : Kind::other;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  Kind before = Kind::other;
  for (const char c : text) {
    const Kind kind = kind_of(c);
    if (kind != Kind::other) {
      if (kind != before) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    before = kind;
  }
  return words;
}

bool has_words(std::string_view text, std::string_view part) {
  const std::vector<std::string> words = words_of(text), some = words_of(part);
  return std::search(words.begin(), words.end(), some.begin(), some.end()) != words.end() ||
         some.empty();
}

bool begins_with_words(std::string_view text, std::string_view part) {
  const std::vector<std::string> words = words_of(text), begin = words_of(part);
  return std::ranges::mismatch(begin, words).in1 == begin.end();
}

}  // namespace xt

#pragma once

// Names of frameworks, models and kernels as different sources spell them.

#include <string>
#include <string_view>
#include <vector>

namespace xt {

/// `text` as runs of letters and runs of digits, in small letters: `Qwen3-30B` is qwen, 3, 30, b.
std::vector<std::string> words_of(std::string_view text);

/// Whether the words of `part` stand in `text` one behind the other: `Megatron DeepSpeed` is in
/// `BLOOM, Megatron-DeepSpeed`, and `qwen3` is in `Qwen-3 8B` but not in `Qwen-32B`.
bool has_words(std::string_view text, std::string_view part);

/// Whether `text` begins with the words of `part`.
bool begins_with_words(std::string_view text, std::string_view part);

}  // namespace xt

#pragma once

// How long the samples of a data set are, from a file: a histogram that somebody counted, or the
// samples' own lines.

#include <filesystem>

#include "costmodel/packing/length_distribution.h"

namespace xt {

/// The lengths in `path`: of a `.json` file a histogram (schema xt.lengths/1, `lengths` a list of
/// [tokens, weight]), of a `.jsonl` file the key `num_tokens` of every line, of an `.idx` file its
/// documents.
///
/// Throws: InputError for another extension, and with everything that is wrong in the file
LengthHistogram read_lengths(const std::filesystem::path& path);

}  // namespace xt

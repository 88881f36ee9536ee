#pragma once

// JSON files as documents with positions, read by the same structs that read YAML.

#include <filesystem>

#include "costmodel/document/node.h"
#include "costmodel/io/json.h"

namespace xt {

/// The document written in `source`, strict JSON.
///
/// Throws: InputError at the first thing that is not JSON
Document parse_json_document(SourceText source);

/// The document in the file at `path`.
///
/// Throws: InputError, also when there is no such file
Document read_json(const std::filesystem::path& path);

/// `node` as a JSON value.
Json to_json(const Node& node);

}  // namespace xt

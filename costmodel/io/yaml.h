#pragma once

// YAML files as documents with positions, and back. Scalars stay text here; what reads as a number
// is decided by `document`, so that `010`, `yes` and a bare `40` mean nothing by accident.

#include <filesystem>
#include <string>

#include "costmodel/document/node.h"

namespace xt {

/// The document written in `source`. Anchors, aliases, tags and second documents are refused.
///
/// Throws: InputError at the first thing that is not plain YAML
Document parse_yaml(SourceText source);

/// The document in the file at `path`.
///
/// Throws: InputError, also when there is no such file
Document read_yaml(const std::filesystem::path& path);

/// `node` as YAML text that `parse_yaml` reads back to the same node, positions aside.
std::string to_yaml(const Node& node);

}  // namespace xt

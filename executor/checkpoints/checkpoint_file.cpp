#include "executor/checkpoints/checkpoint_file.h"

#include <fmt/format.h>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/document/writer.h"
#include "costmodel/io/json_document.h"
#include "costmodel/io/schedule_lines.h"
#include "executor/checkpoints/element_digest.h"

namespace xt {
namespace {

std::string own_digest(CheckpointFile file) {
  file.digest.clear();
  return digest_text(text_digest(to_json(write(file)).dump()));
}

}  // namespace

std::string checkpoint_text(CheckpointFile file) {
  file.digest = own_digest(file);
  return to_json(write(file)).pretty();
}

CheckpointFile read_checkpoint_file(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / checkpoint_file_name;
  auto file = read<CheckpointFile>(read_json(path));
  if (file.schema != checkpoint_schema)
    throw InputError({error_in(path.string(), fmt::format("is of format `{}`, expected `{}`",
                                                          file.schema, checkpoint_schema))});
  if (file.digest != own_digest(file))
    throw InputError({error_in(path.string(), "does not have the digest that it claims")});
  return file;
}

}  // namespace xt

#include "costmodel/io/plan_file.h"

#include <fmt/format.h>

#include "costmodel/document/writer.h"
#include "costmodel/io/json_document.h"

namespace xt {

PlanFile read_plan(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / plan_file_name;
  const Document document = read_json(path);
  const Node* schema = find(document.root, "schema");
  if (schema == nullptr || schema->text != plan_schema) {
    const std::string is =
        schema == nullptr ? "names no format" : fmt::format("is of format `{}`", schema->text);
    throw InputError({error_in(path.string(), fmt::format("{}, expected `{}`", is, plan_schema),
                               "make the plan again with this version of xt-plan")});
  }
  return read<PlanFile>(document);
}

void write_plan(const std::filesystem::path& directory, const PlanFile& plan, Overwrite overwrite) {
  write_file(directory / plan_file_name, to_json(write(plan)).pretty(), overwrite);
}

}  // namespace xt

#include "costmodel/io/plan_file.h"

#include <fmt/format.h>

#include <utility>

#include "costmodel/document/writer.h"
#include "costmodel/io/json_document.h"

namespace xt {

PlanFile parse_plan(SourceText source) {
  const Document document = parse_json_document(std::move(source));
  const Node* schema = find(document.root, "schema");
  if (schema == nullptr || schema->text != plan_schema) {
    const std::string is =
        schema == nullptr ? "names no format" : fmt::format("is of format `{}`", schema->text);
    throw InputError(
        {error_in(document.source.path, fmt::format("{}, expected `{}`", is, plan_schema),
                  "make the plan again with this version of xt-plan")});
  }
  return read<PlanFile>(document);
}

PlanFile read_plan(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / plan_file_name;
  return parse_plan({path.string(), read_file(path)});
}

void write_plan(const std::filesystem::path& directory, const PlanFile& plan, Overwrite overwrite) {
  write_file(directory / plan_file_name, to_json(write(plan)).pretty(), overwrite);
}

}  // namespace xt

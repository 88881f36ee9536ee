#include <fmt/format.h>

#include "costmodel/document/reference.h"
#include "costmodel/io/json.h"
#include "costmodel/models/config.h"
#include "costmodel/models/parameter_counts.h"
#include "costmodel/report/table.h"
#include "costmodel/units/format.h"
#include "planner/cli/commands.h"
#include "planner/lower/engine.h"

namespace xt {
namespace {

void print(const Table& table, const Json& json, bool is_json) {
  if (is_json) {
    fmt::print("{}", json.pretty());
  } else {
    fmt::print("{}", table.text());
  }
}

void list_models(const Surroundings& around) {
  Table table({{"model", {}, Align::left},
               {"family", {}, Align::left},
               {"parameters", "10^9"},
               {"of a token", "10^9"}});
  Json json = Json::array();
  for (const std::string& name : around.catalogue.model_names()) {
    const Architecture model = around.catalogue.model(name).architecture;
    const ParameterCounts counts = parameter_counts(model);
    table.row({name, model.model_type, in_billions(counts.all), in_billions(counts.of_a_token)});
    json.push_back(Json::object({{"name", name},
                                 {"model_type", model.model_type},
                                 {"parameters", counts.all},
                                 {"parameters_of_a_token", counts.of_a_token}}));
  }
  print(table, json, around.is_json);
}

void list_machines(const Surroundings& around) {
  Table table({{"machine", {}, Align::left},
               {"title", {}, Align::left},
               {"ranks a device"},
               {"memory a rank", "GiB"}});
  Json json = Json::array();
  for (const std::string& name : around.catalogue.machine_names()) {
    const Profile profile = around.catalogue.machine(name);
    table.row({name, profile.title, std::to_string(profile.ranks_per_device),
               significant(static_cast<double>(profile.memory.value.value) / (1 << 30), 4)});
    json.push_back(Json::object({{"name", name},
                                 {"title", profile.title},
                                 {"ranks_per_device", profile.ranks_per_device},
                                 {"memory_bytes", profile.memory.value.value}}));
  }
  print(table, json, around.is_json);
}

void list_engines(const Surroundings& around) {
  Table table({{"engine", {}, Align::left}, {"executed", {}, Align::left}, {"", {}, Align::left}});
  Json json = Json::array();
  for (const EngineRules& rules : engines()) {
    table.row({std::string(rules.name), rules.is_executed ? "yes" : "priced only",
               std::string(rules.summary)});
    json.push_back(Json::object(
        {{"name", rules.name}, {"is_executed", rules.is_executed}, {"summary", rules.summary}}));
  }
  print(table, json, around.is_json);
}

}  // namespace

ExitCode list_command(const std::string& what, const Surroundings& around) {
  if (what == "models") list_models(around);
  if (what == "machines") list_machines(around);
  if (what == "engines") list_engines(around);
  if (what == "keys") fmt::print("{}", markdown(reference<RunFile>()));
  return ExitCode::yes;
}

}  // namespace xt

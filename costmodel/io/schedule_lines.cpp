#include "costmodel/io/schedule_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "costmodel/io/json_lines.h"
#include "costmodel/io/line_format.h"
#include "costmodel/io/schedule_ranges.h"

namespace xt {
namespace {

constexpr std::string_view again = "make the plan again with this version of xt-plan";

template <typename Id>
Json id_json(Id id) {
  constexpr auto none = std::numeric_limits<std::uint32_t>::max();
  const auto position = static_cast<std::uint32_t>(id);
  return position == none ? Json(-1) : Json(position);
}

template <typename Id>
Id id_from(const Json& json) {
  const std::int64_t position = json.as_int();
  if (position < -1 || position >= std::numeric_limits<std::uint32_t>::max())
    throw JsonError(fmt::format("{} is no position", position));
  return static_cast<Id>(static_cast<std::uint32_t>(position));
}

Json extent_json(Extent extent) {
  return extent.is_symbol() ? Json(fmt::format("${}", at(extent.symbol()))) : Json(extent.code);
}

Extent extent_from(const Json& json) {
  if (!json.is_text()) {
    const std::int64_t number = json.as_int();
    if (number < 0) throw JsonError(fmt::format("extent {} is negative", number));
    return number;
  }
  const std::string& text = json.as_text();
  const bool is_number =
      text.size() > 1 && text.size() < 10 && text[0] == '$' &&
      std::all_of(text.begin() + 1, text.end(), [](char c) { return '0' <= c && c <= '9'; });
  if (!is_number) throw JsonError(fmt::format("`{}` is no symbol", text));
  return Extent::of(static_cast<SymbolId>(std::stoul(text.substr(1))));
}

template <typename Ids>
Json ids_json(const Ids& ids) {
  Json list = Json::array();
  for (const auto id : ids) list.push_back(id_json(id));
  return list;
}

template <typename Count, typename Id>
Count append_ids(std::vector<Id>& to, const Json& from) {
  for (const Json& item : from.items()) to.push_back(id_from<Id>(item));
  if (!std::in_range<Count>(from.items().size()))
    throw JsonError(fmt::format("a list of {} positions", from.items().size()));
  return static_cast<Count>(from.items().size());
}

// --- writing ---

Json batch_json(const BatchBuffers& batch) {
  Json list = Json::array();
  for (const BufferId id : {batch.tokens, batch.labels, batch.positions, batch.boundaries,
                            batch.valid_tokens, batch.loss, batch.grad_norm, batch.balance_loss})
    list.push_back(id_json(id));
  return list;
}

Json rope_scaling_json(const RopeScaling& of) {
  return Json::array({word(of.kind), of.factor, of.low_freq_factor, of.high_freq_factor,
                      of.original_length, of.beta_fast, of.beta_slow, of.truncates,
                      of.attention_factor});
}

Json constants_json(const ModelConstants& of) {
  return Json::array({of.rms_norm_eps, of.rope_theta, of.norm_topk_prob, of.attention_scale,
                      of.swiglu_limit, of.router_scale, of.router_groups, of.chosen_groups});
}

Json header_json(const Schedule& schedule) {
  Json groups = Json::array(), parts = Json::array();
  for (const GroupShape& group : schedule.groups)
    groups.push_back(Json::array({group.size, group.stride}));
  for (const std::string& part : schedule.parts) parts.push_back(part);
  const ModelConstants& constants = schedule.constants;
  return Json::object({{"schema", schedule_schema},
                       {"digest", digest_text(digest(schedule))},
                       {"engine", schedule.engine},
                       {"ranks", schedule.ranks},
                       {"groups", groups},
                       {"parts", parts},
                       {"batch", batch_json(schedule.batch)},
                       {"constants", constants_json(constants)},
                       {"rope_scaling", rope_scaling_json(constants.rope_scaling)}});
}

Json symbol_json(const Symbol& symbol) {
  return Json::array({"symbol", word(symbol.kind), symbol.layer, symbol.assumed, symbol.parts,
                      symbol.micro_batch});
}

Json work_json(const Work& work) {
  Json line = Json::array({"work", name(work.kernel), name(work.dtype), word(work.group)});
  std::size_t n = max_extents;
  while (n > 0 && work.extents[n - 1] == Extent{}) --n;
  for (std::size_t i = 0; i < n; ++i) line.push_back(extent_json(work.extents[i]));
  return line;
}

Json buffer_json(const Buffer& buffer) {
  Json line = Json::array({"buffer", word(buffer.kind), name(buffer.dtype), word(buffer.space),
                           word(buffer.category), word(buffer.lane), word(buffer.pool)});
  for (const Extent extent : buffer.shape) line.push_back(extent_json(extent));
  line.push_back(id_json(buffer.first_op));
  line.push_back(id_json(buffer.last_op));
  if (buffer.kind != BufferKind::view) return line;
  line.push_back(id_json(buffer.parent));
  return line.push_back(buffer.offset_bytes);
}

Json op_json(const Schedule& schedule, const Op& op) {
  return Json::array({"op", id_json(op.work), word(op.lane), word(op.origin.phase), op.origin.part,
                      op.origin.layer, op.origin.chunk, ids_json(schedule.inputs(op)),
                      ids_json(schedule.outputs(op)), ids_json(schedule.dependencies_of(op)),
                      ids_json(schedule.ended_by(op))});
}

Json flat_json(const Flat& flat) {
  return Json::array({"flat", flat.name, word(flat.group), flat.elements, id_json(flat.parameter),
                      id_json(flat.exp_avg), id_json(flat.exp_avg_sq), flat.layer});
}

Json placement_json(const Placement& placement) {
  Json line = Json::array({"placement", placement.name, placement.flat, placement.offset_elements,
                           placement.expert, placement.is_stacked});
  for (std::int32_t i = 0; i < placement.n_dimensions; ++i)
    line.push_back(placement.shape[static_cast<std::size_t>(i)]);
  return line;
}

// --- reading ---

void read_batch(const Json& list, BatchBuffers& batch) {
  std::size_t i = 0;
  for (BufferId* id : {&batch.tokens, &batch.labels, &batch.positions, &batch.boundaries,
                       &batch.valid_tokens, &batch.loss, &batch.grad_norm, &batch.balance_loss})
    *id = id_from<BufferId>(item(list, i++));
}

RopeScaling rope_scaling_of(const Json& list) {
  const auto number = [&](std::size_t i) { return item(list, i).as_double(); };
  return {enum_from<RopeScalingKind>(item(list, 0)),
          number(1),
          number(2),
          number(3),
          number(4),
          number(5),
          number(6),
          item(list, 7).as_bool(),
          number(8)};
}

ModelConstants constants_of(const Json& list, const Json& rope_scaling) {
  return {item(list, 0).as_double(),     item(list, 1).as_double(), item(list, 2).as_bool(),
          rope_scaling_of(rope_scaling), item(list, 3).as_double(), item(list, 4).as_double(),
          item(list, 5).as_double(),     item(list, 6).as_int(),    item(list, 7).as_int()};
}

void read_header(const Json& line, Schedule& schedule) {
  schedule.engine = line.at("engine").as_text();
  schedule.ranks = narrow<std::int32_t>(line.at("ranks"));
  for (std::size_t i = 0; i < schedule.groups.size(); ++i) {
    const Json& group = item(line.at("groups"), i);
    schedule.groups[i] = {narrow<std::int32_t>(item(group, 0)),
                          narrow<std::int32_t>(item(group, 1))};
  }
  for (const Json& part : line.at("parts").items()) schedule.parts.push_back(part.as_text());
  read_batch(line.at("batch"), schedule.batch);
  schedule.constants = constants_of(line.at("constants"), line.at("rope_scaling"));
}

void read_work(const Json& line, Schedule& schedule) {
  Work work;
  const std::string& kernel = item(line, 1).as_text();
  if (!kernel_named(kernel)) throw JsonError(fmt::format("there is no kernel `{}`", kernel));
  work.kernel = *kernel_named(kernel);
  work.dtype = enum_from<DType>(item(line, 2));
  work.group = enum_from<Group>(item(line, 3));
  const std::size_t n = line.items().size() - 4;
  if (n > max_extents) throw JsonError(fmt::format("{} extents, at most {}", n, max_extents));
  for (std::size_t i = 0; i < n; ++i) work.extents[i] = extent_from(item(line, i + 4));
  schedule.works.push_back(work);
}

void read_buffer(const Json& line, Schedule& schedule) {
  Buffer buffer;
  buffer.kind = enum_from<BufferKind>(item(line, 1));
  buffer.dtype = enum_from<DType>(item(line, 2));
  buffer.space = enum_from<Space>(item(line, 3));
  buffer.category = enum_from<MemoryCategory>(item(line, 4));
  buffer.lane = enum_from<Lane>(item(line, 5));
  buffer.pool = enum_from<Lane>(item(line, 6));
  for (std::size_t d = 0; d < 3; ++d) buffer.shape[d] = extent_from(item(line, 7 + d));
  buffer.first_op = id_from<OpId>(item(line, 10));
  buffer.last_op = id_from<OpId>(item(line, 11));
  if (buffer.kind == BufferKind::view) {
    buffer.parent = id_from<BufferId>(item(line, 12));
    buffer.offset_bytes = item(line, 13).as_int();
  }
  schedule.buffers.push_back(buffer);
}

void read_op(const Json& line, Schedule& schedule) {
  Op op;
  op.work = id_from<WorkId>(item(line, 1));
  op.lane = enum_from<Lane>(item(line, 2));
  op.origin = {enum_from<Phase>(item(line, 3)), narrow<std::uint8_t>(item(line, 4)),
               narrow<std::int16_t>(item(line, 5)), narrow<std::int16_t>(item(line, 6))};
  op.first_operand = static_cast<std::uint32_t>(schedule.operands.size());
  op.first_dependency = static_cast<std::uint32_t>(schedule.dependencies.size());
  op.first_ended = static_cast<std::uint32_t>(schedule.ended.size());
  op.n_inputs = append_ids<std::uint8_t>(schedule.operands, item(line, 7));
  op.n_outputs = append_ids<std::uint8_t>(schedule.operands, item(line, 8));
  op.n_dependencies = append_ids<std::uint16_t>(schedule.dependencies, item(line, 9));
  op.n_ended = append_ids<std::uint16_t>(schedule.ended, item(line, 10));
  schedule.ops.push_back(op);
}

void read_placement(const Json& line, Schedule& schedule) {
  Placement placement;
  placement.name = item(line, 1).as_text();
  placement.flat = narrow<std::int32_t>(item(line, 2));
  placement.offset_elements = item(line, 3).as_int();
  placement.expert = narrow<std::int32_t>(item(line, 4));
  placement.is_stacked = item(line, 5).as_bool();
  const std::size_t n = line.items().size() - 6;
  if (n < 1 || n > 3) throw JsonError(fmt::format("a parameter of {} dimensions", n));
  placement.n_dimensions = static_cast<std::int32_t>(n);
  for (std::size_t d = 0; d < n; ++d) placement.shape[d] = item(line, d + 6).as_int();
  schedule.placements.push_back(std::move(placement));
}

void read_line(const Json& line, Schedule& schedule) {
  const std::string& kind = item(line, 0).as_text();
  if (kind == "symbol") {
    schedule.symbols.push_back({enum_from<SymbolKind>(item(line, 1)),
                                narrow<std::int16_t>(item(line, 2)), item(line, 3).as_int(),
                                item(line, 4).as_int(), narrow<std::int16_t>(item(line, 5))});
  } else if (kind == "work") {
    read_work(line, schedule);
  } else if (kind == "buffer") {
    read_buffer(line, schedule);
  } else if (kind == "op") {
    read_op(line, schedule);
  } else if (kind == "section") {
    schedule.sections.push_back({id_from<OpId>(item(line, 1)), id_from<OpId>(item(line, 2)),
                                 narrow<std::int32_t>(item(line, 3))});
  } else if (kind == "flat") {
    schedule.flats.push_back({item(line, 1).as_text(), enum_from<Group>(item(line, 2)),
                              item(line, 3).as_int(), id_from<BufferId>(item(line, 4)),
                              id_from<BufferId>(item(line, 5)), id_from<BufferId>(item(line, 6)),
                              narrow<std::int16_t>(item(line, 7))});
  } else if (kind == "placement") {
    read_placement(line, schedule);
  } else if (kind == "held_back") {
    schedule.held_back.push_back({id_from<BufferId>(item(line, 1)), id_from<OpId>(item(line, 2))});
  } else {
    throw JsonError(fmt::format("a line of the unknown kind `{}`", kind));
  }
}

}  // namespace

std::string digest_text(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

std::string schedule_lines(const Schedule& schedule) {
  std::string text;
  const auto write = [&](const Json& line) {
    line.append_to(text);
    text += '\n';
  };
  write(header_json(schedule));
  for (const Symbol& symbol : schedule.symbols) write(symbol_json(symbol));
  for (const Work& work : schedule.works) write(work_json(work));
  for (const Buffer& buffer : schedule.buffers) write(buffer_json(buffer));
  for (const Op& op : schedule.ops) write(op_json(schedule, op));
  for (const Section& section : schedule.sections)
    write(Json::array({"section", id_json(section.begin), id_json(section.end), section.repeat}));
  for (const Flat& flat : schedule.flats) write(flat_json(flat));
  for (const Placement& placement : schedule.placements) write(placement_json(placement));
  for (const HeldBack& of : schedule.held_back)
    write(Json::array({"held_back", id_json(of.buffer), id_json(of.until)}));
  return text;
}

Schedule parse_schedule_lines(const std::string& path, std::string_view text) {
  Schedule schedule;
  std::string claimed;
  for_each_json_line(path, text, [&](const Json& line) {
    if (!claimed.empty()) return read_line(line, schedule);
    check_schema(path, line, schedule_schema, again);
    claimed = line.at("digest").as_text();
    read_header(line, schedule);
  });
  const auto damaged = [&](std::string message) {
    throw InputError({error_in(path, std::move(message), std::string(again))});
  };
  if (claimed.empty()) damaged("is empty, expected a schedule");
  if (!is_closed(schedule)) damaged("is damaged: it names an op or a buffer that it does not hold");
  if (!has_sane_numbers(schedule)) damaged("is damaged: it holds a size that cannot be");
  const std::string found = digest_text(digest(schedule));
  if (found != claimed)
    damaged(fmt::format("is damaged: its digest is {}, but it claims {}", found, claimed));
  return schedule;
}

Schedule read_schedule(const std::filesystem::path& path) {
  return parse_schedule_lines(path.string(), read_file(path));
}

void write_schedule(const std::filesystem::path& path, const Schedule& schedule,
                    Overwrite overwrite) {
  write_file(path, schedule_lines(schedule), overwrite);
}

}  // namespace xt

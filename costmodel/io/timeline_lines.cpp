#include "costmodel/io/timeline_lines.h"

#include <utility>

#include "costmodel/io/json_lines.h"
#include "costmodel/io/line_format.h"
#include "costmodel/io/schedule_lines.h"

namespace xt {
namespace {

constexpr std::string_view again = "record it again with this version of xt-plan and xt-run";

Json memory_json(const MemoryPeak& memory) {
  Json categories = Json::object();
  for (std::size_t i = 0; i < memory.by_category.size(); ++i)
    categories.add(std::string(memory_category_names[i]), memory.by_category[i].value);
  const Json op = memory.op == no_op ? Json() : Json(at(memory.op));
  return Json::object(
      {{"peak_bytes", memory.peak.value}, {"op", op}, {"by_category_bytes", categories}});
}

MemoryPeak memory_from(const Json& json) {
  MemoryPeak memory;
  memory.peak = Bytes(json.at("peak_bytes").as_int());
  const Json& op = json.at("op");
  if (!op.is_null()) memory.op = static_cast<OpId>(narrow<std::uint32_t>(op));
  for (std::size_t i = 0; i < memory.by_category.size(); ++i)
    memory.by_category[i] =
        Bytes(json.at("by_category_bytes").at(memory_category_names[i]).as_int());
  return memory;
}

std::int64_t count(Instant instant) { return (instant - Instant{}).count(); }

Instant instant_from(const Json& json) { return Instant(Duration(json.as_int())); }

Json header_json(const Timeline& timeline, Duration clock_offset, Duration step_start) {
  Json bindings = Json::array();
  for (const Bindings& values : timeline.bindings) {
    Json list = Json::array();
    for (const std::int64_t value : values) list.push_back(value);
    bindings.push_back(list);
  }
  return Json::object({{"schema", timeline_schema},
                       {"schedule_digest", digest_text(timeline.schedule_digest)},
                       {"is_measured", timeline.is_measured},
                       {"rank", timeline.rank},
                       {"step", timeline.step},
                       {"clock_offset_ns", clock_offset.count()},
                       {"step_start_ns", step_start.count()},
                       {"end_ns", count(timeline.end)},
                       {"bindings", bindings},
                       {"device_memory", memory_json(timeline.device_memory)},
                       {"host_memory", memory_json(timeline.host_memory)}});
}

std::uint64_t digest_from(const std::string& text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw JsonError(fmt::format("`{}` is no digest", text));
  return std::stoull(text, nullptr, 16);
}

void read_header(const Json& line, TimelineFile& file) {
  Timeline& timeline = file.timelines.emplace_back();
  timeline.schedule_digest = digest_from(line.at("schedule_digest").as_text());
  timeline.is_measured = line.at("is_measured").as_bool();
  timeline.rank = narrow<std::int32_t>(line.at("rank"));
  timeline.step = narrow<std::int32_t>(line.at("step"));
  file.clock_offsets.emplace_back(line.at("clock_offset_ns").as_int());
  file.step_starts.emplace_back(line.at("step_start_ns").as_int());
  timeline.end = instant_from(line.at("end_ns"));
  for (const Json& values : line.at("bindings").items()) {
    Bindings& bindings = timeline.bindings.emplace_back();
    for (const Json& value : values.items()) bindings.push_back(value.as_int());
  }
  timeline.device_memory = memory_from(line.at("device_memory"));
  timeline.host_memory = memory_from(line.at("host_memory"));
}

Event event_from(const Json& line) {
  return {static_cast<OpId>(narrow<std::uint32_t>(item(line, 0))),
          narrow<std::int32_t>(item(line, 1)), instant_from(item(line, 2)),
          instant_from(item(line, 3))};
}

}  // namespace

std::string timeline_lines(const Timeline& timeline, Duration clock_offset, Duration step_start) {
  std::string text = header_json(timeline, clock_offset, step_start).dump() + '\n';
  for (const Event& event : timeline.events)
    text += fmt::format("[{},{},{},{}]\n", at(event.op), event.repeat, count(event.start),
                        count(event.end));
  return text;
}

TimelineFile parse_timeline_lines(const std::string& path, std::string_view text) {
  TimelineFile file;
  for_each_json_line(path, text, [&](const Json& line) {
    if (line.is_array() && !file.timelines.empty())
      return file.timelines.back().events.push_back(event_from(line));
    check_schema(path, line, timeline_schema, again);
    read_header(line, file);
  });
  if (file.timelines.empty())
    throw InputError({error_in(path, "is empty, expected a timeline", std::string(again))});
  return file;
}

TimelineFile read_timelines(const std::filesystem::path& path) {
  return parse_timeline_lines(path.string(), read_file(path));
}

void write_timelines(const std::filesystem::path& path, std::span<const Timeline> timelines,
                     Overwrite overwrite) {
  std::string text;
  for (const Timeline& timeline : timelines) text += timeline_lines(timeline);
  write_file(path, text, overwrite);
}

}  // namespace xt

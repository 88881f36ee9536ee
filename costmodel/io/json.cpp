#include "costmodel/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace xt {
namespace {

constexpr std::array<std::string_view, 7> kinds = {
    "null", "true or false", "a whole number", "a number", "text", "an array", "an object"};

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const std::size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  // A double stays a double when it is read back.
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

constexpr std::size_t deepest = 200;

/// Builds a Json from the events of the strict parser.
class Builder {
 public:
  bool null() { return put({}); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) {
    if (std::in_range<std::int64_t>(value)) return put(static_cast<std::int64_t>(value));
    return put(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool key(std::string& key) {
    keys_.back() = std::move(key);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    throw JsonError(fmt::format("is not JSON, at byte {}", position));
  }

  Json take() { return std::move(root_); }

 private:
  bool put(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_object())
      open_.back().add(std::move(keys_.back()), std::move(value));
    else
      open_.back().push_back(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == deepest) throw JsonError("is nested too deeply");
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return put(std::move(value));
  }

  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;
};

}  // namespace

// Here and not in the class, because an object's members hold values themselves.
Json::Json() = default;
Json::Json(bool value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(Array items) : value_(std::move(items)) {}
Json::Json(Object members) : value_(std::move(members)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> items) { return {Array(items)}; }

Json Json::object(std::initializer_list<JsonMember> members) { return {Object(members)}; }

std::string_view Json::kind() const { return kinds[value_.index()]; }

bool Json::as_bool() const {
  if (const auto* value = std::get_if<bool>(&value_)) return *value;
  throw JsonError(fmt::format("expected true or false, found {}", kind()));
}

std::int64_t Json::as_int() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  throw JsonError(fmt::format("expected a whole number, found {}", kind()));
}

double Json::as_double() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  throw JsonError(fmt::format("expected a number, found {}", kind()));
}

const std::string& Json::as_text() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  throw JsonError(fmt::format("expected text, found {}", kind()));
}

const Json::Array& Json::items() const {
  if (const auto* value = std::get_if<Array>(&value_)) return *value;
  throw JsonError(fmt::format("expected an array, found {}", kind()));
}

const Json::Object& Json::members() const {
  if (const auto* value = std::get_if<Object>(&value_)) return *value;
  throw JsonError(fmt::format("expected an object, found {}", kind()));
}

const Json* Json::find(std::string_view key) const {
  const Object& all = members();
  const auto found = std::ranges::find(all, key, &JsonMember::key);
  return found == all.end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  throw JsonError(fmt::format("missing key `{}`", key));
}

Json& Json::add(std::string key, Json value) {
  if (is_null()) value_ = Object();
  if (!is_object()) throw JsonError(fmt::format("cannot add `{}` to {}", key, kind()));
  std::get<Object>(value_).push_back({std::move(key), std::move(value)});
  return *this;
}

Json& Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  if (!is_array()) throw JsonError(fmt::format("cannot append to {}", kind()));
  std::get<Array>(value_).push_back(std::move(item));
  return *this;
}

void Json::append_to(std::string& out) const {
  if (const auto* truth = std::get_if<bool>(&value_)) {
    out += *truth ? "true" : "false";
  } else if (const auto* whole = std::get_if<std::int64_t>(&value_)) {
    fmt::format_to(std::back_inserter(out), "{}", *whole);
  } else if (const auto* number = std::get_if<double>(&value_)) {
    append_double(out, *number);
  } else if (const auto* text = std::get_if<std::string>(&value_)) {
    append_quoted(out, *text);
  } else if (const auto* array = std::get_if<Array>(&value_)) {
    char separator = '[';
    for (const Json& item : *array) {
      out += std::exchange(separator, ',');
      item.append_to(out);
    }
    out += array->empty() ? "[]" : "]";
  } else if (const auto* object = std::get_if<Object>(&value_)) {
    char separator = '{';
    for (const JsonMember& member : *object) {
      out += std::exchange(separator, ',');
      append_quoted(out, member.key);
      out += ':';
      member.value.append_to(out);
    }
    out += object->empty() ? "{}" : "}";
  } else {
    out += "null";
  }
}

void Json::append_pretty(std::string& out, std::size_t depth) const {
  const std::string inner = "\n" + std::string(2 * depth + 2, ' ');
  const std::string outer = "\n" + std::string(2 * depth, ' ');
  if (is_array() && std::ranges::any_of(items(), [](const Json& item) {
        return item.is_array() || item.is_object();
      })) {
    char separator = '[';
    for (const Json& item : items()) {
      out += std::exchange(separator, ',') + inner;
      item.append_pretty(out, depth + 1);
    }
    out += outer + "]";
  } else if (is_object() && !members().empty()) {
    char separator = '{';
    for (const JsonMember& member : members()) {
      out += std::exchange(separator, ',') + inner;
      append_quoted(out, member.key);
      out += ": ";
      member.value.append_pretty(out, depth + 1);
    }
    out += outer + "}";
  } else if (is_array()) {
    std::string_view separator = "[";
    for (const Json& item : items()) {
      out += std::exchange(separator, ", ");
      item.append_to(out);
    }
    out += items().empty() ? "[]" : "]";
  } else {
    append_to(out);
  }
}

std::string Json::dump() const {
  std::string out;
  append_to(out);
  return out;
}

std::string Json::pretty() const {
  std::string out;
  append_pretty(out, 0);
  return out + "\n";
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

std::string json_quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

Json parse_json(std::string_view text) {
  Builder builder;
  nlohmann::json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace xt

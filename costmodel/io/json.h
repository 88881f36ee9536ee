#pragma once

// A JSON value whose objects keep their key order, for documents and lines that programs exchange.
// Files that people write are read through `json_document.h`, which knows positions.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xt {

struct JsonMember;

/// The text is not JSON, or a value is not of the kind asked for; says which.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A JSON value: null, true or false, a number (whole or not), text, an array or an object.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;

  // Implicit so that documents can be written down as they look.
  // NOLINTBEGIN(google-explicit-constructor)
  Json();
  Json(bool value);
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value);
  Json(double value);
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  Json(Array items);
  Json(Object members);
  // NOLINTEND(google-explicit-constructor)
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  /// An object with these members, in this order: `Json::object({{"schema", "…"}, {"n", 3}})`.
  static Json object(std::initializer_list<JsonMember> members = {});
  /// An array of these items.
  static Json array(std::initializer_list<Json> items = {});

  [[nodiscard]] bool is_null() const { return value_.index() == 0; }
  [[nodiscard]] bool is_text() const { return std::holds_alternative<std::string>(value_); }
  [[nodiscard]] bool is_number() const { return value_.index() == 2 || value_.index() == 3; }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// Throws: JsonError when the value is of another kind; all `as_…`, `items` and `members` do
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  [[nodiscard]] double as_double() const;
  [[nodiscard]] const std::string& as_text() const;
  [[nodiscard]] const Array& items() const;
  [[nodiscard]] const Object& members() const;

  /// The member called `key`, or null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// Throws: JsonError when there is no member called `key`
  [[nodiscard]] const Json& at(std::string_view key) const;

  /// Appends a member to an object; a null becomes an object first.
  Json& add(std::string key, Json value);
  /// Appends an item to an array; a null becomes an array first.
  Json& push_back(Json item);

  /// The text on one line, without blanks; doubles in the fewest digits that read back equal, and
  /// null when not finite.
  [[nodiscard]] std::string dump() const;
  /// The text over several lines, two blanks a level; ends with a line break.
  [[nodiscard]] std::string pretty() const;
  /// Appends the text of `dump` to `out`.
  void append_to(std::string& out) const;

  bool operator==(const Json& other) const;

 private:
  void append_pretty(std::string& out, std::size_t depth) const;
  [[nodiscard]] std::string_view kind() const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// A key and its value.
struct JsonMember {
  std::string key;
  Json value;

  bool operator==(const JsonMember&) const = default;
};

template <std::integral T>
requires(!std::same_as<T, bool>) Json::Json(T value) : value_(static_cast<std::int64_t>(value)) {}

/// `text` in quotes, escaped where JSON needs it.
std::string json_quoted(std::string_view text);

/// The value written in `text`, strict JSON.
///
/// Throws: JsonError with the position of what is wrong
Json parse_json(std::string_view text);

}  // namespace xt

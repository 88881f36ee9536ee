#pragma once

// The reference of a file's keys, from the same `describe` that reads them.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/document/node.h"
#include "costmodel/document/scalar.h"
#include "costmodel/document/shape.h"

namespace xt {

/// One key: its dotted path ("links.NAME.rate", "layers[].heads"), its type with limits, its
/// initial value if it may be left out, and what it means.
struct KeyReference {
  std::string key;
  std::string type;
  std::string doc;
  bool is_required = true;
  std::string initial = {};
};

/// The last rows of a reference, for the limits that follow `field`.
class ReferenceField {
 public:
  ReferenceField(std::vector<KeyReference>& rows, std::size_t row, std::string initial)
      : rows_(rows), row_(row), initial_(std::move(initial)) {}

  ReferenceField& optional() {
    rows_[row_].is_required = false;
    rows_[row_].initial = initial_;
    return *this;
  }
  template <typename Range>
  ReferenceField& one_of(const Range& words) {
    rows_[row_].type = one_of_words({std::begin(words), std::end(words)});
    return *this;
  }
  ReferenceField& at_least(const auto& bound) { return limit("at least", bound); }
  ReferenceField& at_most(const auto& bound) { return limit("at most", bound); }
  ReferenceField& above(const auto& bound) { return limit("above", bound); }

 private:
  template <typename T>
  ReferenceField& limit(std::string_view rule, const T& bound) {
    rows_[row_].type += ", " + std::string(rule) + " " + Scalar<T>::write(bound).text;
    return *this;
  }

  std::vector<KeyReference>& rows_;
  std::size_t row_;
  std::string initial_;
};

/// The archive that lists keys instead of reading them.
class ReferenceArchive {
 public:
  /// One key of the struct being listed; called from `describe`.
  template <typename T>
  ReferenceField field(std::string_view name, T& member, std::string_view doc) {
    const std::size_t row = rows_.size();
    const std::string key = prefix_ + std::string(name);
    rows_.push_back({key, "", std::string(doc), !is_optional<T>});
    rows_[row].type = visit<T>(key, member);
    std::string initial;
    if constexpr (IsScalar<T>) initial = Scalar<T>::write(member).text;
    return ReferenceField(rows_, row, std::move(initial));
  }

  [[nodiscard]] const std::vector<KeyReference>& rows() const { return rows_; }

  /// Adds the keys below `key` and names the type of its value.
  template <typename T>
  std::string visit(const std::string& key, T& value) {
    if constexpr (std::is_same_v<T, Node>) {
      return "anything";
    } else if constexpr (IsScalar<T>) {
      return Scalar<T>::type();
    } else if constexpr (is_optional<T>) {
      typename T::value_type element{};
      return visit(key, element);
    } else if constexpr (is_list<T>) {
      typename T::value_type element{};
      return "list: " + visit(key + "[]", element);
    } else if constexpr (is_pair<T>) {
      return "two values: " + visit(key + "[0]", value.first) + "; " +
             visit(key + "[1]", value.second);
    } else if constexpr (is_named<T>) {
      typename decltype(value.entries)::value_type::second_type element{};
      return "map by name: " + visit(key + ".NAME", element);
    } else {
      const std::string outer = std::exchange(prefix_, key.empty() ? "" : key + ".");
      value.describe(*this);
      prefix_ = outer;
      return "map";
    }
  }

 private:
  std::string prefix_;
  std::vector<KeyReference> rows_;
};

/// The keys of a file that holds a `T`.
template <typename T>
std::vector<KeyReference> reference() {
  ReferenceArchive archive;
  T value{};
  archive.visit("", value);
  return archive.rows();
}

/// The keys as Markdown rows `| key | type | doc |`.
std::string markdown(const std::vector<KeyReference>& rows);

}  // namespace xt

#pragma once

// Aligned columns for terminals: numbers to the right, one unit a column, named in its header.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/units/format.h"
#include "costmodel/units/unit.h"

namespace xt {

enum class Align : std::uint8_t { left, right };

/// A column's title, printed as "title" or "title [unit]".
struct Column {
  std::string header;
  std::string unit = {};
  Align align = Align::right;
};

/// Rows of text under headers.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row; cells that are left out are empty.
  ///
  /// Assumes: no more cells than columns
  Table& row(std::vector<std::string> cells);

  /// The table, each line indented by `indent` blanks and without trailing blanks; the header line
  /// is left out when every header is empty.
  [[nodiscard]] std::string text(std::size_t indent = 2) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Numbers of one column, all in the same unit and with the same number of decimals.
struct Numbers {
  std::string unit;
  std::vector<std::string> cells;
};

/// `values` in `unit`, each behind `mark`; `largest` gets about four significant digits.
Numbers numbers_in(const Unit& unit, const std::vector<double>& values, double largest,
                   std::string_view mark);

/// Quantities in the unit that suits the largest of them; `mark` is "~" for predictions.
template <typename Q>
Numbers numbers(const std::vector<Q>& quantities, std::string_view mark = "") {
  Q largest{};
  std::vector<double> values;
  for (const Q quantity : quantities) {
    largest = std::max({largest, quantity, -quantity});
    values.push_back(static_cast<double>(quantity.value));
  }
  const std::string text = format(largest);
  const Unit* unit = unit_named(dimension<Q>(), std::string_view(text).substr(text.find(' ') + 1));
  return numbers_in(*unit, values, static_cast<double>(largest.value), mark);
}

/// A part of a whole as "28.9 %".
std::string percent(double ratio);

}  // namespace xt

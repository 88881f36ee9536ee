#include "costmodel/report/table.h"

#include <fmt/format.h>

#include <utility>

#include "costmodel/diagnostics/check.h"
#include "costmodel/report/style.h"

namespace xt {
namespace {

std::string title(const Column& column) {
  return column.unit.empty() ? column.header : fmt::format("{} [{}]", column.header, column.unit);
}

std::string padded(const std::string& cell, std::size_t columns, Align align) {
  const std::string blanks(columns - std::min(columns, width(cell)), ' ');
  return align == Align::left ? cell + blanks : blanks + cell;
}

}  // namespace

Table& Table::row(std::vector<std::string> cells) {
  XT_CHECK(cells.size() <= columns_.size(), cells.size(), columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(title(column));
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(width(titles[i]));
    for (const auto& cells : rows_) widths[i] = std::max(widths[i], width(cells[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i)
      text += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], columns_[i].align);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text;
  if (std::ranges::any_of(titles, [](const std::string& t) { return !t.empty(); }))
    text += line(titles);
  for (const auto& cells : rows_) text += line(cells);
  return text;
}

Numbers numbers_in(const Unit& unit, const std::vector<double>& values, double largest,
                   std::string_view mark) {
  const double in_unit = largest / unit.factor;
  const int before_point = in_unit >= 1 ? static_cast<int>(std::log10(in_unit)) + 1 : 1;
  // Whole base units have no fraction.
  const int decimals = unit.factor == 1 && unit.name == "B" ? 0 : std::max(0, 4 - before_point);
  Numbers numbers{std::string(unit.name), {}};
  for (const double value : values)
    numbers.cells.push_back(fmt::format("{}{:.{}f}", mark, value / unit.factor, decimals));
  return numbers;
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

}  // namespace xt

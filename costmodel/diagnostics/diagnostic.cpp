#include "costmodel/diagnostics/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace xt {
namespace {

constexpr std::string_view red = "\x1b[1;31m";
constexpr std::string_view yellow = "\x1b[1;33m";
constexpr std::string_view cyan = "\x1b[36m";
constexpr std::string_view plain = "\x1b[0m";

std::string painted(std::string_view text, std::string_view color, bool on) {
  return on ? fmt::format("{}{}{}", color, text, plain) : std::string(text);
}

std::string_view word(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

std::string position(const Location& where) {
  if (where.file.empty()) return "";
  if (where.line == 0) return where.file + ": ";
  return fmt::format("{}:{}:{}: ", where.file, where.line, where.column);
}

/// Line `number`, counted from 1, of `text`; empty when there is none.
std::string_view line_of(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::size_t n_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

/// As many blanks as `text` is wide; tabs stay so that the caret lines up under them.
std::string blank(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (!continues_character(c)) out += c == '\t' ? '\t' : ' ';
  return out;
}

/// The part of a line that is shown: all of it unless it is very long.
struct Excerpt {
  std::string_view before;
  std::string_view marked;
  std::string_view after;
};

Excerpt excerpt(std::string_view line, const Location& where) {
  constexpr std::size_t widest = 160;
  const std::size_t begin = std::min(line.size(), static_cast<std::size_t>(where.column - 1));
  const std::size_t length =
      std::min({line.size() - begin, static_cast<std::size_t>(where.length), widest / 2});
  Excerpt shown = {line.substr(0, begin), line.substr(begin, length), line.substr(begin + length)};
  if (line.size() <= widest) return shown;
  constexpr std::size_t margin = widest / 4;
  if (shown.before.size() > margin) shown.before.remove_prefix(shown.before.size() - margin);
  shown.after = shown.after.substr(0, margin);
  return shown;
}

/// The source line and a caret line under the token.
std::string pointed_at(const Location& where, std::span<const SourceText> sources,
                       std::string_view color, bool on) {
  const auto source = std::ranges::find(sources, where.file, &SourceText::path);
  if (where.line == 0 || source == sources.end()) return "";
  const Excerpt shown = excerpt(line_of(source->text, where.line), where);
  const std::string number = fmt::format("{:>4}", where.line);
  const std::string carets(std::max<std::size_t>(1, n_characters(shown.marked)), '^');
  return fmt::format("{} | {}{}{}\n{} | {}{}\n", number, shown.before, shown.marked, shown.after,
                     std::string(number.size(), ' '), blank(shown.before),
                     painted(carets, color, on));
}

std::string rendered(const Diagnostic& diagnostic, std::span<const SourceText> sources,
                     bool color) {
  const std::string_view hue = diagnostic.severity == Severity::error ? red : yellow;
  std::string text =
      fmt::format("{}{}: {}\n", position(diagnostic.where),
                  painted(word(diagnostic.severity), hue, color), diagnostic.message);
  text += pointed_at(diagnostic.where, sources, hue, color);
  if (!diagnostic.hint.empty())
    text += fmt::format("\n{}: {}\n", painted("hint", cyan, color), diagnostic.hint);
  return text;
}

/// ` in FILE`, ` in N files` or ` in N flags`; nothing when no problem names a place.
std::string places(std::span<const Diagnostic> errors) {
  std::set<std::string_view> places;
  for (const Diagnostic& error : errors)
    if (!error.where.file.empty()) places.insert(error.where.file);
  if (places.empty()) return "";
  if (places.size() == 1) return fmt::format(" in {}", *places.begin());
  const auto n_flags =
      std::ranges::count_if(places, [](std::string_view place) { return place.starts_with("--"); });
  const bool are_flags = n_flags == std::ssize(places);
  return fmt::format(" in {} {}", places.size(),
                     are_flags      ? "flags"
                     : n_flags == 0 ? "files"
                                    : "places");
}

}  // namespace

Diagnostic error_in(std::string file, std::string message, std::string hint) {
  return {Severity::error, {std::move(file), 0, 0, 0}, std::move(message), std::move(hint)};
}

InputError::InputError(std::vector<Diagnostic> problems, std::vector<SourceText> sources)
    : problems_(std::move(problems)), sources_(std::move(sources)) {
  sort_by_position(problems_);
  for (const Diagnostic& problem : problems_)
    what_ += fmt::format("{}{}", what_.empty() ? "" : "\n", headline(problem));
}

InputError::InputError(std::string message, std::string hint)
    : InputError(std::vector{error_in("", std::move(message), std::move(hint))}) {}

std::string headline(const Diagnostic& diagnostic) {
  return fmt::format("{}{}: {}", position(diagnostic.where), word(diagnostic.severity),
                     diagnostic.message);
}

std::string render(std::span<const Diagnostic> diagnostics, std::span<const SourceText> sources,
                   const RenderOptions& options) {
  std::string text;
  std::vector<Diagnostic> errors;
  for (const Diagnostic& diagnostic : diagnostics) {
    text += fmt::format("{}{}", text.empty() ? "" : "\n",
                        rendered(diagnostic, sources, options.is_colored));
    if (diagnostic.severity == Severity::error) errors.push_back(diagnostic);
  }
  if (errors.empty()) return text;
  return text + fmt::format("\n{}: {} problem{}{}; {}\n", painted("error", red, options.is_colored),
                            errors.size(), errors.size() == 1 ? "" : "s", places(errors),
                            options.outcome);
}

std::string render(const InputError& error, const RenderOptions& options) {
  return render(error.problems(), error.sources(), options);
}

void sort_by_position(std::vector<Diagnostic>& diagnostics) {
  std::map<std::string, std::size_t> rank;
  for (const Diagnostic& diagnostic : diagnostics)
    rank.try_emplace(diagnostic.where.file, rank.size());
  std::ranges::stable_sort(diagnostics, {}, [&](const Diagnostic& diagnostic) {
    const Location& where = diagnostic.where;
    return std::tuple(rank.at(where.file), where.line, where.column);
  });
}

}  // namespace xt

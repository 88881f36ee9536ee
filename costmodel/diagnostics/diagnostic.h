#pragma once

// What is wrong with the user's input, where, and what to do about it. Problems are collected and
// thrown together as one InputError; only a main catches it. Knows no file and no terminal.

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace xt {

/// The text of one input, kept so that a problem can show its line.
struct SourceText {
  std::string path;
  std::string text;
};

/// A stretch of one line of an input.
///
/// Units: line and column count from 1, columns and length in bytes; line 0 means no position
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 0;
};

enum class Severity : std::uint8_t { error, warning };

/// One problem: the message says what is wrong with the value found, the hint what to do.
struct Diagnostic {
  Severity severity = Severity::error;
  Location where = {};
  std::string message;
  std::string hint = {};
};

/// An error without a position: a flag, a whole file, or two inputs that disagree.
Diagnostic error_in(std::string file, std::string message, std::string hint = {});

/// The user's input is wrong; carries every problem found and the texts they are in.
class InputError : public std::exception {
 public:
  explicit InputError(std::vector<Diagnostic> problems, std::vector<SourceText> sources = {});
  /// One problem without a position.
  explicit InputError(std::string message, std::string hint = {});

  [[nodiscard]] const std::vector<Diagnostic>& problems() const { return problems_; }
  [[nodiscard]] const std::vector<SourceText>& sources() const { return sources_; }
  /// The problems, one `file:line:column: error: message` a line.
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::vector<Diagnostic> problems_;
  std::vector<SourceText> sources_;
  std::string what_;
};

/// How problems are shown, and what did not happen because of them.
struct RenderOptions {
  bool is_colored = false;
  std::string outcome = "nothing was planned";
};

/// `file:line:column: error: message`, leaving out what is unknown.
std::string headline(const Diagnostic& diagnostic);

/// The problems for people: source line and caret, hints, and a summary line when any is an error.
std::string render(std::span<const Diagnostic> diagnostics, std::span<const SourceText> sources,
                   const RenderOptions& options = {});

/// The problems of `error` for people.
std::string render(const InputError& error, const RenderOptions& options = {});

/// Sorts by file (in order of first appearance), line and column; problems without position first.
void sort_by_position(std::vector<Diagnostic>& diagnostics);

}  // namespace xt

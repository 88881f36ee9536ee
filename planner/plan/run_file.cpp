#include "planner/plan/run_file.h"

#include <algorithm>

#include "costmodel/io/yaml.h"

namespace xt {
namespace {

std::string flag_of(std::string_view field) {
  std::string flag = "--" + std::string(field);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// Visits two files field by field and keeps what the second one says.
class Override {
 public:
  explicit Override(std::vector<const void*> values) : values_(std::move(values)) {}

  struct Limits {
    Limits& at_least(double) { return *this; }
    Limits& at_most(double) { return *this; }
    Limits& above(double) { return *this; }
    Limits& one_of(const auto&) { return *this; }
  };

  template <typename T>
  Limits field(std::string_view, std::optional<T>& member, std::string_view) {
    const auto& value = *static_cast<const std::optional<T>*>(values_[next_++]);
    if (value) member = value;
    return {};
  }

 private:
  std::vector<const void*> values_;
  std::size_t next_ = 0;
};

// Visits a file and notes where each of its fields lies.
struct Addresses {
  std::vector<const void*> values;

  template <typename T>
  Override::Limits field(std::string_view, std::optional<T>& member, std::string_view) {
    values.push_back(&member);
    return {};
  }
};

// Whole numbers with commas between are a list.
Node flag_node(const std::string& text) {
  const bool is_list = text.find_first_not_of("0123456789,") == std::string::npos &&
                       text.find(',') != std::string::npos &&
                       text.find(",,") == std::string::npos && text.front() != ',' &&
                       text.back() != ',';
  if (!is_list) return reads_as_literal(text) ? literal_node(text) : text_node(text);
  Node list = list_node();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    list.items.push_back(literal_node(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return list;
}

Document flags_document(const std::vector<std::pair<std::string, std::string>>& flags) {
  Document document;
  document.source.path = "command line";
  document.root = map_node();
  for (const auto& [name, text] : flags) add(document.root, name, flag_node(text));
  return document;
}

void take(std::vector<Diagnostic>& all, const Reader& reader) {
  all.insert(all.end(), reader.problems().begin(), reader.problems().end());
}

}  // namespace

RunFile RunFile::merged(const RunFile& file, const RunFile& flags) {
  RunFile result = file;
  RunFile source = flags;
  Addresses addresses;
  source.describe(addresses);
  Override override_with(std::move(addresses.values));
  result.describe(override_with);
  return result;
}

Request::Request(const std::optional<std::filesystem::path>& file,
                 const std::vector<std::pair<std::string, std::string>>& flags)
    : flags_(flags_document(flags)) {
  RunFile from_file;
  if (file) {
    file_ = read_yaml(*file);
    Reader reader(file_);
    reader.read(from_file);
    take(problems_, reader);
  }
  const RunFile from_flags = read_flags(flags_);
  finish();
  fields_ = RunFile::merged(from_file, from_flags);
}

// One flag at a time, so that each problem names its flag.
RunFile Request::read_flags(const Document& flags) {
  RunFile all;
  for (std::size_t i = 0; i < flags.root.items.size(); ++i) {
    Document one;
    one.source.path = flag_of(flags.root.keys[i].text);
    one.root = map_node();
    add(one.root, flags.root.keys[i].text, flags.root.items[i]);
    Reader reader(one);
    RunFile read_one;
    reader.read(read_one);
    take(problems_, reader);
    all = RunFile::merged(all, read_one);
  }
  return all;
}

Request Request::with(const std::vector<std::pair<std::string, std::string>>& flags) const {
  Request changed = *this;
  const Document more = flags_document(flags);
  const RunFile from_flags = changed.read_flags(more);
  changed.finish();
  changed.fields_ = RunFile::merged(fields_, from_flags);
  for (std::size_t i = 0; i < more.root.items.size(); ++i)
    add(changed.flags_.root, more.root.keys[i].text, more.root.items[i]);
  return changed;
}

Request Request::with(const RunFile& fields) const {
  Request other = *this;
  other.fields_ = fields;
  other.problems_.clear();
  return other;
}

void Request::problem(std::string_view field, std::string message, std::string hint) {
  const std::string_view key = field.substr(0, field.find('['));
  if (find(flags_.root, key) == nullptr && find(file_.root, key) != nullptr) {
    Reader reader(file_);
    reader.problem(field, std::move(message), std::move(hint));
    take(problems_, reader);
    return;
  }
  problems_.push_back(error_in(flag_of(key), std::move(message), std::move(hint)));
}

void Request::finish() const {
  if (problems_.empty()) return;
  std::vector<Diagnostic> sorted = problems_;
  sort_by_position(sorted);
  throw InputError(std::move(sorted), {file_.source});
}

}  // namespace xt

#include "costmodel/io/yaml.h"

#include <gtest/gtest.h>

#include <string>

namespace xt {
namespace {

Document document(const std::string& text) { return parse_yaml({"a.yaml", text}); }

std::string problem_of(const std::string& text) {
  try {
    document(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void expect_mark(const Mark& mark, int line, int column, int length) {
  EXPECT_EQ(mark.line, line);
  EXPECT_EQ(mark.column, column);
  EXPECT_EQ(mark.length, length);
}

TEST(Yaml, RemembersWhereKeysAndValuesStand) {
  const Node root = document(
                        "# comment\n"
                        "name: H200 SXM  # text\n"
                        "quoted: \"a \\\" b\"\n"
                        "rates:\n"
                        "  - 4.8 TB/s\n"
                        "  - 'it''s'\n")
                        .root;
  expect_mark(root.keys.at(0).mark, 2, 1, 4);
  expect_mark(root.items.at(0).mark, 2, 7, 8);
  expect_mark(root.items.at(1).mark, 3, 9, 8);
  EXPECT_EQ(root.items.at(1).text, "a \" b");
  expect_mark(root.items.at(2).mark, 4, 1, 5);
  expect_mark(root.items.at(2).items.at(0).mark, 5, 5, 8);
  expect_mark(root.items.at(2).items.at(1).mark, 6, 5, 7);
}

TEST(Yaml, LeavesScalarsAsTheyAreWritten) {
  const Node root = document("[010, yes, 40, \"40\", true, ~, 1e3, 0x10]").root;
  const std::string texts[] = {"010", "yes", "40", "40", "true", "", "1e3", "0x10"};
  const bool are_text[] = {false, true, false, true, false, false, false, true};
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(root.items.at(i).text, texts[i]);
    EXPECT_EQ(root.items.at(i).is_text, are_text[i]) << texts[i];
  }
  EXPECT_EQ(root.items.at(5).kind, Node::Kind::nothing);
}

TEST(Yaml, KeepsDuplicateKeysForTheReaderToReport) {
  EXPECT_EQ(document("a: 1\na: 2\n").root.keys.size(), 2U);
}

TEST(Yaml, ReadsFilesWithWindowsLineEnds) {
  const Node root = document("a: x\r\nb: y\r\n").root;
  EXPECT_EQ(root.items.at(0).text, "x");
  expect_mark(root.items.at(1).mark, 2, 4, 1);
}

TEST(Yaml, RefusesWhatWouldSurprise) {
  EXPECT_EQ(problem_of("a: &x 1\nb: *x\n"), "a.yaml:1:4: error: anchors are not read");
  EXPECT_EQ(problem_of("a: !!str 1\n"),
            "a.yaml:1:4: error: tag `tag:yaml.org,2002:str` is not read");
  EXPECT_EQ(problem_of("a: 1\n---\nb: 2\n"), "a.yaml:2:1: error: a second document begins here");
  EXPECT_EQ(problem_of("? [a]\n: 1\n"), "a.yaml:1:3: error: a key must be one word");
  EXPECT_EQ(problem_of(std::string(300, '[')).substr(0, 7), "a.yaml:");
}

TEST(Yaml, PointsAtWhatIsNotYaml) {
  EXPECT_EQ(problem_of("a: 1\nb: [1, 2\n").substr(0, 27), "a.yaml:3:1: error: is not Y");
  EXPECT_EQ(problem_of("a: b: c\n"), "a.yaml:1:5: error: is not YAML: illegal map value");
}

TEST(Yaml, WritesTextThatReadsBack) {
  Node root = map_node();
  for (const std::string word :
       {"plain words", "7", "true", "", "null", "- x", "a: b", "a #b", "x:", "#", "[", "two\nlines",
        " blank ", "\"", "it's", "1.5e3", "40 GiB", "a, b", "é"})
    add(root, "key " + word, text_node(word));
  Node rows = list_node();
  for (const std::string name : {"x", "y"}) {
    Node row = map_node();
    add(row, "name", text_node(name));
    add(row, "empty", list_node());
    add(row, "nested", list_node({list_node({literal_node("1")}), list_node()}));
    rows.items.push_back(std::move(row));
  }
  add(root, "rows", rows);
  add(root, "deep", list_node({list_node({rows, rows})}));
  add(root, "nothing", Node{});
  add(root, "no keys", map_node());
  const std::string text = to_yaml(root);
  EXPECT_EQ(to_yaml(document(text).root), text) << text;
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    EXPECT_EQ(document(text).root.keys.at(i).text, root.keys.at(i).text);
    EXPECT_EQ(document(text).root.items.at(i).text, root.items.at(i).text);
    EXPECT_EQ(document(text).root.items.at(i).is_text, root.items.at(i).is_text);
  }
}

}  // namespace
}  // namespace xt

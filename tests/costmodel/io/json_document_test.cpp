#include "costmodel/io/json_document.h"

#include <gtest/gtest.h>

#include <string>

namespace xt {
namespace {

std::string problem_of(const std::string& text) {
  try {
    parse_json_document({"a.json", text});
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

TEST(JsonDocument, RemembersWhereKeysAndValuesStand) {
  const Document document =
      parse_json_document({"a.json", "{\n  \"a\\\"b\" : [ 10, -1.5e3 ],\n\t\"c\":true}\n"});
  const Node& list = document.root.items.at(0);
  EXPECT_EQ(document.root.keys.at(0).text, "a\"b");
  expect_mark(document.root.keys.at(0).mark, 2, 3, 6);
  expect_mark(list.mark, 2, 3, 6);
  expect_mark(list.items.at(0).mark, 2, 14, 2);
  expect_mark(list.items.at(1).mark, 2, 18, 6);
  EXPECT_EQ(list.items.at(1).text, "-1.5e3");
  expect_mark(document.root.items.at(1).mark, 3, 6, 4);
}

TEST(JsonDocument, TellsTextFromNumbers) {
  const Document document = parse_json_document({"a.json", R"(["7", 7, null, false])"});
  EXPECT_TRUE(document.root.items.at(0).is_text);
  EXPECT_FALSE(document.root.items.at(1).is_text);
  EXPECT_EQ(document.root.items.at(2).kind, Node::Kind::nothing);
  EXPECT_FALSE(document.root.items.at(3).is_text);
}

TEST(JsonDocument, TakesAMarkOfByteOrderInFrontForNoToken) {
  const Document document = parse_json_document({"a.json", "\xef\xbb\xbf{\"a\": 17}"});
  EXPECT_EQ(document.root.items.at(0).text, "17");
}

TEST(JsonDocument, PointsAtWhatIsNotJson) {
  EXPECT_EQ(problem_of("{\n  \"a\": 1,\n  b: 2\n}"), "a.json:3:3: error: is not JSON from here on");
  EXPECT_EQ(problem_of("{\"a\": 1"), "a.json:1:8: error: is not JSON: the text ends too early");
  EXPECT_EQ(problem_of(""), "a.json:1:1: error: is not JSON: the text ends too early");
  EXPECT_EQ(problem_of(std::string(1000, '[')), "a.json:1:201: error: is nested too deeply");
}

TEST(JsonDocument, KeepsDuplicateKeysForTheReaderToReport) {
  EXPECT_EQ(parse_json_document({"a.json", R"({"a":1,"a":2})"}).root.keys.size(), 2U);
}

TEST(JsonDocument, BecomesAJsonValueAgain) {
  const std::string text = R"({"a":[1,2.5,"x"],"b":{"c":null,"d":true}})";
  EXPECT_EQ(to_json(parse_json_document({"a.json", text}).root).dump(), text);
}

}  // namespace
}  // namespace xt

#include "costmodel/io/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "costmodel/diagnostics/diagnostic.h"
#include "costmodel/io/json_lines.h"

namespace xt {
namespace {

Json sample() {
  return Json::object({{"schema", "xt.estimate/1"},
                       {"steps", 3},
                       {"step_s", 0.1},
                       {"fits", true},
                       {"note", Json()},
                       {"peaks", Json::array({1, 2.5})},
                       {"rows", Json::array({Json::object({{"b", 1}, {"a", 2}})})},
                       {"none", Json::array()}});
}

TEST(Json, DumpsKeysInTheOrderTheyWereAdded) {
  EXPECT_EQ(sample().dump(),
            R"({"schema":"xt.estimate/1","steps":3,"step_s":0.1,"fits":true,"note":null,)"
            R"("peaks":[1,2.5],"rows":[{"b":1,"a":2}],"none":[]})");
}

TEST(Json, PrintsPrettyWithListsOfScalarsOnOneLine) {
  EXPECT_EQ(sample().pretty(),
            "{\n"
            "  \"schema\": \"xt.estimate/1\",\n"
            "  \"steps\": 3,\n"
            "  \"step_s\": 0.1,\n"
            "  \"fits\": true,\n"
            "  \"note\": null,\n"
            "  \"peaks\": [1, 2.5],\n"
            "  \"rows\": [\n"
            "    {\n"
            "      \"b\": 1,\n"
            "      \"a\": 2\n"
            "    }\n"
            "  ],\n"
            "  \"none\": []\n"
            "}\n");
}

TEST(Json, ReadsBackWhatItDumped) {
  EXPECT_EQ(parse_json(sample().dump()), sample());
  EXPECT_EQ(parse_json(sample().pretty()), sample());
}

TEST(Json, KeepsDoublesExactlyAndApartFromWholeNumbers) {
  for (const double value : {0.1, 1.0, 1e300, 5e-324, 1.0 / 3.0, 123456789.0})
    EXPECT_EQ(parse_json(Json(value).dump()), Json(value)) << Json(value).dump();
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, EscapesWhatMustBeEscaped) {
  EXPECT_EQ(Json("a\"b\\c\n\x01é").dump(), "\"a\\\"b\\\\c\\n\\u0001é\"");
  EXPECT_EQ(parse_json(R"("😀")").as_text(), "😀");
}

TEST(Json, SaysWhatItFoundInsteadOfWhatWasAsked) {
  const auto message = [](const auto& ask) -> std::string {
    try {
      ask();
    } catch (const JsonError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([] { return sample().at("stepz").as_int(); }), "missing key `stepz`");
  EXPECT_EQ(message([] { return sample().at("fits").as_int(); }),
            "expected a whole number, found true or false");
  EXPECT_EQ(message([] { return parse_json("[1,]").is_null(); }), "is not JSON, at byte 4");
  EXPECT_EQ(message([] { return parse_json(std::string(1000, '[')).is_null(); }),
            "is nested too deeply");
  EXPECT_EQ(sample().at("steps").as_double(), 3.0);
}

TEST(JsonLines, VisitsEachLine) {
  std::vector<std::int64_t> ids;
  for_each_json_line("a.jsonl", "{\"id\":1}\n{\"id\":2}\n",
                     [&](const Json& line) { ids.push_back(line.at("id").as_int()); });
  EXPECT_EQ(ids, (std::vector<std::int64_t>{1, 2}));
}

TEST(JsonLines, ReportsTheLineThatIsWrong) {
  try {
    for_each_json_line("a.jsonl", "{\"id\":1}\n{\"di\":2}\n",
                       [](const Json& line) { static_cast<void>(line.at("id").as_int()); });
    FAIL() << "a line without its key was accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "a.jsonl:2:1: error: missing key `id`");
    EXPECT_NE(render(error).find("   2 | {\"di\":2}\n"), std::string::npos) << render(error);
  }
}

}  // namespace
}  // namespace xt

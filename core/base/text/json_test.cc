#include "core/base/text/json.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(const std::string& text) {
  const auto parsed = ParseJson(text, "f.json");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(parsed.status().message());
}

TEST(ParseJsonTest, ReadsStandardJsonBehindAByteOrderMark) {
  EXPECT_EQ(*ParseJson("\xef\xbb\xbf{\"a\": [1, 2.5, \"x\", null, true]}", "f.json"),
            (json{{"a", {1, 2.5, "x", nullptr, true}}}));
}

TEST(ParseJsonTest, ReadsTheNonFiniteNumbersOfPython) {
  const auto parsed = ParseJson(
      R"({"NaN": NaN, "low": -Infinity, "list": ["Infinity", Infinity, "-Infinity\"", 1]})", "f");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(std::isnan((*parsed)["NaN"].get<double>()));
  EXPECT_EQ((*parsed)["low"], -INFINITY);
  EXPECT_EQ((*parsed)["list"][0], "Infinity");
  EXPECT_EQ((*parsed)["list"][1], INFINITY);
  EXPECT_EQ((*parsed)["list"][2], "-Infinity\"");
  EXPECT_EQ((*parsed)["list"][3], 1);
}

TEST(ParseJsonTest, RefusesNonFiniteWordsInOddPlaces) {
  EXPECT_THAT(Error("{\"a\": NaNa}"), StartsWith("f.json: line 1, column 10: "));
  EXPECT_THAT(Error("[1 Infinity]"), StartsWith("f.json: line 1, column "));
}

TEST(ParseJsonTest, NamesLineColumnAndReason) {
  EXPECT_THAT(Error("{\n  \"a\": 1,\n  \"b\" 2\n}"),
              AllOf(StartsWith("f.json: line 3, column 7: "), HasSubstr("expected ':'")));
  EXPECT_THAT(Error("{\"a\": "), HasSubstr("unexpected end of input"));
  EXPECT_THAT(Error(""), HasSubstr("empty"));
  EXPECT_LT(Error("{\"a\": \"" + std::string(100000, 'x')).size(), 300u);
}

TEST(ParseJsonTest, LimitsTheDepth) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth), "f").ok());
  EXPECT_EQ(Error(nested(kMaxJsonDepth + 1)),
            "f.json: line 1, column 101: more than 100 nested lists and objects");
  EXPECT_THAT(Error(std::string(1000000, '[')), HasSubstr("nested"));
  // Brackets in strings are text.
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\"", "f").ok());
}

TEST(ParseJsonTest, RefusesNumbersBeyondDouble) {
  EXPECT_THAT(Error("[1e999]"), HasSubstr("1e999"));
}

TEST(ParseJsonObjectTest, ErrorShowsTheActualValue) {
  EXPECT_EQ(ParseJsonObject("[1, 2]", "f.json").status().message(),
            "f.json: expected a JSON object {...}, found [1,2]");
}

TEST(JsonTextTest, RoundTripsNonFiniteNumbersAndTheOrderOfKeys) {
  const std::string text =
      "{\n  \"z\": -Infinity,\n  \"a\": [\n    NaN,\n    Infinity\n  ],\n"
      "  \"s\": \"NaN\"\n}";
  EXPECT_EQ(JsonText(*ParseJson<ordered_json>(text, "f"), 2), text);
  EXPECT_EQ(JsonText(*ParseJson<ordered_json>("{\"b\": 1, \"a\": 2.5}", "f"), -1),
            "{\"b\":1,\"a\":2.5}");
}

TEST(ShowJsonTest, CutsLongValues) {
  EXPECT_EQ(ShowJson({{"k", "é"}}), "{\"k\":\"\\u00e9\"}");
  EXPECT_EQ(ShowJson(std::string(1000, 'x')).size(), 103u);
  EXPECT_EQ(ShowJson(*ParseJson("[-Infinity, NaN]", "f")), "[-Infinity,NaN]");
}

}  // namespace
}  // namespace dpipe

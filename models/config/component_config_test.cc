#include "models/config/component_config.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

ComponentConfig Config(const std::string& text) {
  auto config = ComponentConfig::Parse(text, "x/config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(ComponentConfigTest, ReadsValuesAndDefaults) {
  ComponentConfig config = Config(
      R"({"a": 3, "b": [1, 2], "c": "x", "d": true, "e": 1e-5, "f": null, "g": ["p", "q"]})");
  EXPECT_EQ(config.PositiveInt("a", 1), 3);
  EXPECT_EQ(config.PositiveInt("f", 9), 9) << "null is missing";
  EXPECT_EQ(config.PositiveInts("b", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.PerBlock("a", 1, 2), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(config.PerBlock("b", 1, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.PerBlock("missing", 7, 1), (std::vector<int64_t>{7}));
  EXPECT_EQ(config.String("c", ""), "x");
  EXPECT_TRUE(config.Bool("d", false));
  EXPECT_EQ(config.Number("e", 0), 1e-5);
  EXPECT_EQ(config.Strings("g", {}), (std::vector<std::string>{"p", "q"}));
  config.Expect("c", {"\"x\"", "\"y\""});
  config.Expect("f", {"null"});
  config.Expect("missing", {"false"});
  EXPECT_TRUE(config.status().ok()) << config.status();
}

TEST(ComponentConfigTest, NamesEveryProblem) {
  ComponentConfig config = Config(R"({"a": -3, "b": [1, "x"], "c": 5, "d": "yes", "act": "mish"})");
  config.PositiveInt("a", 1);
  config.PerBlock("b", 1, 2);
  config.String("c", "");
  config.Bool("d", false);
  config.Expect("act", {"\"silu\"", "\"swish\""});
  EXPECT_EQ(config.status().message(),
            "x/config.json: 'a' is -3, expected a positive integer; "
            "'b' is [1,\"x\"], expected a positive integer or a list of 2 of them; "
            "'c' is 5, expected a string; 'd' is \"yes\", expected true or false; "
            "'act' is \"mish\", supported: \"silu\", \"swish\"");
}

TEST(ComponentConfigTest, ListsOfEqualEntriesStandForOne) {
  ComponentConfig config = Config(R"({"a": 3, "b": [2, 2], "c": null, "d": [false, false],
                                      "e": false})");
  EXPECT_EQ(config.EqualPositiveInts("a", 1), 3);
  EXPECT_EQ(config.EqualPositiveInts("b", 1), 2);
  EXPECT_EQ(config.EqualPositiveInts("c", 7), 7);
  EXPECT_EQ(config.EqualPositiveInts("missing", 7), 7);
  for (const char* key : {"d", "e", "missing"}) config.ExpectEach(key, {"false"});
  EXPECT_TRUE(config.status().ok()) << config.status();

  ComponentConfig wrong = Config(R"({"a": [1, 2], "b": [], "c": [0, 0], "d": [true, false]})");
  for (const char* key : {"a", "b", "c"}) wrong.EqualPositiveInts(key, 1);
  wrong.ExpectEach("d", {"false"});
  wrong.ExpectEach("b", {"false"});
  EXPECT_EQ(wrong.status().message(),
            "x/config.json: 'a' is [1,2], expected a positive integer or a list of equal ones; "
            "'b' is [], expected a positive integer or a list of equal ones; "
            "'c' is [0,0], expected a positive integer or a list of equal ones; "
            "'d' is [true,false], supported: false; and 1 more problems");
}

TEST(ComponentConfigTest, NullDiffersFromMissing) {
  const ComponentConfig config = Config(R"({"a": null, "b": 1})");
  EXPECT_TRUE(config.IsNull("a"));
  EXPECT_FALSE(config.IsNull("b"));
  EXPECT_FALSE(config.IsNull("missing"));
}

TEST(ComponentConfigTest, RefusesNonObjects) {
  for (const char* text : {"", "[1]", "{\"a\": 1", "nul", "{\"a\": 1} x"}) {
    const auto config = ComponentConfig::Parse(text, "x.json");
    EXPECT_TRUE(absl::StartsWith(config.status().message(), "x.json: ")) << config.status();
  }
  EXPECT_EQ(ComponentConfig::Parse("[1]", "x.json").status().message(),
            "x.json: expected a JSON object {...}, found [1]");
}

TEST(ComponentConfigTest, DeepNestingIsAnError) {
  const std::string deep = "{\"a\": " + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_EQ(ComponentConfig::Parse(deep, "x.json").status().message(),
            "x.json: line 1, column 106: more than 100 nested lists and objects");
}

// diffusers writes -Infinity into scheduler configurations.
TEST(ComponentConfigTest, NonFiniteNumbersAreErrorsOnlyWhenUsed) {
  ComponentConfig config = Config(R"({"a": -Infinity, "b": NaN, "c": 2})");
  EXPECT_EQ(config.Number("c", 1), 2);
  EXPECT_TRUE(config.status().ok());
  EXPECT_EQ(config.Number("a", 1), 1);
  EXPECT_EQ(config.PositiveInt("b", 1), 1);
  EXPECT_THAT(std::string(config.status().message()),
              ::testing::HasSubstr("'a' is -Infinity, expected a finite number"));
}

TEST(ComponentConfigTest, AnotherKindIsTheOnlyProblem) {
  const ComponentConfig config = Config(R"({"_class_name": "AutoencoderTiny"})");
  EXPECT_EQ(config.CheckKind("_class_name", "AutoencoderKL").message(),
            "x/config.json: '_class_name' is \"AutoencoderTiny\"; only \"AutoencoderKL\" is "
            "supported");
  EXPECT_TRUE(config.CheckKind("_class_name", "AutoencoderTiny").ok());
  EXPECT_TRUE(config.CheckKind("missing", "AutoencoderKL").ok());
}

TEST(ComponentConfigTest, MessagesAreOneLine) {
  ComponentConfig config = Config(R"({"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0})");
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) config.PositiveInt(key, 1);
  EXPECT_EQ(
      config.status().message(),
      "x/config.json: 'a' is 0, expected a positive integer; 'b' is 0, expected a positive "
      "integer; 'c' is 0, expected a positive integer; 'd' is 0, expected a positive integer; "
      "'e' is 0, expected a positive integer; and 2 more problems");
  ComponentConfig large = Config(R"({"a": ")" + std::string(1000, 'x') + R"(", "b": ")" +
                                 std::string(1000, 'y') + "\"}");
  for (const char* key : {"a", "b", "a", "b"}) large.PositiveInt(key, 1);
  EXPECT_LT(large.status().message().size(), 300u);
}

TEST(ComponentConfigTest, SizesOfDamagedFilesAreRefused) {
  const std::string text =
      R"({"sample_size": 2000000, "layers_per_block": [5000, 5000], "channels": [8, 1048577],)"
      R"( "num_hidden_layers": 1000, "many": [)" +
      absl::StrJoin(std::vector<int>(101, 1), ",") + "]}";
  const auto error = [&text](const std::function<void(ComponentConfig*)>& read) {
    ComponentConfig config = Config(text);
    read(&config);
    return std::string(config.status().message());
  };
  EXPECT_THAT(error([](ComponentConfig* config) {
                EXPECT_EQ(config->EqualPositiveInts("sample_size", 64), 64);
              }),
              HasSubstr("'sample_size' is 2000000, expected a positive integer or a list of equal "
                        "ones of at most 1048576"));
  EXPECT_THAT(
      error([](ComponentConfig* config) { config->EqualPositiveInts("layers_per_block", 2); }),
      HasSubstr("a list of equal ones of at most 1000"));
  EXPECT_THAT(error([](ComponentConfig* config) { config->PositiveInts("channels", {1}); }),
              HasSubstr("a list of positive integers of at most 1048576"));
  EXPECT_THAT(error([](ComponentConfig* config) { config->PositiveInts("many", {1}); }),
              HasSubstr("a list of positive integers, at most 100 of them"));
  EXPECT_EQ(error([](ComponentConfig* config) {
              EXPECT_EQ(config->PositiveInt("num_hidden_layers", 12), 1000);
            }),
            "");
}

}  // namespace
}  // namespace dpipe::models

#include "models/folder/model_index.h"

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  return std::string(ParseModelIndex(text, "index").status().message());
}

TEST(ModelIndexTest, AbsentComponentsAreOmitted) {
  const auto index = ParseModelIndex(
      R"({"_class_name": "P", "unet": ["diffusers", "U"], "image_encoder": [null, null], "x": 1,
          "scheduler": ["diffusers", "S"]})",
      "index");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->class_name, "P");
  EXPECT_EQ(index->components, std::set<std::string>({"scheduler", "unet"}));
  EXPECT_EQ(index->scheduler_class, "S");
}

TEST(ModelIndexTest, NamesProblems) {
  EXPECT_EQ(ErrorOf("[1]"), "index: expected a JSON object {...}, found [1]");
  EXPECT_EQ(
      ErrorOf("{\"_class_name\": P}"),
      "index: line 1, column 17: syntax error while parsing value - invalid literal; last read: "
      "'\"_class_name\": P'");
  EXPECT_THAT(ErrorOf("{\"a\": " + std::string(200000, '[') + std::string(200000, ']') + "}"),
              HasSubstr("more than 100 nested lists and objects"));
  EXPECT_EQ(ErrorOf(R"({"_class_name": 3})"), "index has no string _class_name");
  for (const char* name : {"../vae", "/vae", "", ".", ".."}) {
    EXPECT_EQ(
        ErrorOf(std::string(R"({"_class_name": "P", ")") + name + R"(": ["diffusers", "U"]})"),
        std::string("index: the component name '") + name + "' is not a valid subfolder name");
  }
}

TEST(ModelIndexTest, OtherPathsAreDescribed) {
  const auto error = [](const std::string& folder) {
    const absl::Status status = ReadModelIndex(folder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    return std::string(status.message());
  };
  const std::string root = ::testing::TempDir();
  EXPECT_EQ(error("/no/folder"), "there is no model folder /no/folder");
  const std::string file = root + "/model.safetensors";
  ASSERT_TRUE(WriteFileAtomically(file, "x").ok());
  EXPECT_THAT(error(file), HasSubstr(file + " is a single file of weights; expected a folder"));
  const std::string component = root + "/controlnet";
  ASSERT_TRUE(MakeFolder(component).ok());
  EXPECT_THAT(error(component), HasSubstr(component + " has no model_index.json; expected"));
  ASSERT_TRUE(
      WriteFileAtomically(component + "/config.json", R"({"_class_name": "ControlNetModel"})")
          .ok());
  EXPECT_THAT(error(component),
              HasSubstr(component + " is the folder of one component, a ControlNetModel"));
  ASSERT_TRUE(WriteFileAtomically(component + "/config.json", "[").ok());
  EXPECT_THAT(error(component), HasSubstr("is the folder of one component, not of a model"));
}

TEST(ModelIndexTest, MissingComponentsAreNull) {
  const std::string text =
      R"({"_class_name":"P","safety_checker":["s","S"],"requires_safety_checker":true,)"
      R"("u":["d","U"]})";
  EXPECT_EQ(WithoutComponents(text, {}), text);
  EXPECT_THAT(WithoutComponents(R"({"x":-Infinity})", {"u"}), HasSubstr("\"x\": -Infinity"));
  const auto json = nlohmann::json::parse(WithoutComponents(text, {"safety_checker"}));
  EXPECT_EQ(json.dump(), R"({"_class_name":"P","requires_safety_checker":false,)"
                         R"("safety_checker":[null,null],"u":["d","U"]})");
  const auto other = nlohmann::json::parse(WithoutComponents(text, {"u"}));
  EXPECT_EQ(other["requires_safety_checker"], true);
  EXPECT_EQ(other["u"].dump(), "[null,null]");
}

}  // namespace
}  // namespace dpipe::models

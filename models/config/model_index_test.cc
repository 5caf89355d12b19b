#include "models/config/model_index.h"

#include "core/base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  return std::string(ParseModelIndex(text, "index").status().message());
}

TEST(ModelIndexTest, ComponentsAreThoseThatAreThere) {
  const auto index = ParseModelIndex(
      R"({"_class_name": "P", "unet": ["diffusers", "U"], "image_encoder": [null, null], "x": 1})",
      "index");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->class_name, "P");
  EXPECT_EQ(index->components, std::set<std::string>({"unet"}));
}

TEST(ModelIndexTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(ErrorOf("[1]"), "index is not a JSON object");
  EXPECT_EQ(ErrorOf(R"({"_class_name": 3})"), "index has no string _class_name");
  for (const char* name : {"../vae", "/vae", "", ".", ".."}) {
    EXPECT_EQ(
        ErrorOf(std::string(R"({"_class_name": "P", ")") + name + R"(": ["diffusers", "U"]})"),
        std::string("index: the component '") + name + "' has no name of a subfolder");
  }
  EXPECT_THAT(std::string(ReadModelIndex("/no/folder").status().message()),
              HasSubstr("/no/folder/model_index.json"));
}

TEST(ModelIndexTest, MissingComponentsAreNull) {
  const std::string text =
      R"({"_class_name":"P","safety_checker":["s","S"],"requires_safety_checker":true,)"
      R"("u":["d","U"]})";
  EXPECT_EQ(WithoutComponents(text, {}), text);
  const auto json = nlohmann::json::parse(WithoutComponents(text, {"safety_checker"}));
  EXPECT_EQ(json.dump(), R"({"_class_name":"P","requires_safety_checker":false,)"
                         R"("safety_checker":[null,null],"u":["d","U"]})");
  const auto other = nlohmann::json::parse(WithoutComponents(text, {"u"}));
  EXPECT_EQ(other["requires_safety_checker"], true);
  EXPECT_EQ(other["u"].dump(), "[null,null]");
}

}  // namespace
}  // namespace dpipe::models

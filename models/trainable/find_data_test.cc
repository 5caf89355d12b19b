#include "models/trainable/find_data.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

class FindDataTest : public ::testing::Test {
 protected:
  // The folders of the built-in data sets hold other files, which are not overwritten. The error
  // names the data set that was requested.
  FindDataTest() {
    for (const char* name : {"scenes", "scenes_with_outlines"}) {
      const std::string folder = absl::StrCat(workspace_.path(), "/out/data/", name);
      EXPECT_TRUE(MakeFolder(folder).ok());
      EXPECT_TRUE(WriteFileAtomically(folder + "/thesis.txt", "years of work").ok());
    }
    setenv("BUILD_WORKSPACE_DIRECTORY", workspace_.path().c_str(), /*overwrite=*/1);
  }
  ~FindDataTest() override { unsetenv("BUILD_WORKSPACE_DIRECTORY"); }

  std::string ModelOfClass(const std::string& class_name) {
    const std::string index = absl::StrCat(R"({"_class_name": ")", class_name, "\"}");
    EXPECT_TRUE(WriteFileAtomically(workspace_.File("model_index.json"), index).ok());
    return workspace_.path();
  }
  static std::string ErrorOf(const std::string& model_folder, const std::string& kind) {
    const auto found = FindDataFor(model_folder, kind, "", [](const std::string&) {});
    return std::string(found.status().message());
  }

  ScratchFolder workspace_;
};

TEST_F(FindDataTest, ModelsWithConditionsGetThem) {
  EXPECT_THAT(ErrorOf(ModelOfClass("StableDiffusionControlNetPipeline"), ""),
              HasSubstr("/scenes_with_outlines"));
  EXPECT_THAT(ErrorOf(ModelOfClass("StableDiffusionPipeline"), "controlnet"),
              HasSubstr("/scenes_with_outlines"));
  for (const char* kind : {"", "stable_diffusion"}) {
    const std::string error = ErrorOf(ModelOfClass("StableDiffusionPipeline"), kind);
    EXPECT_THAT(error, HasSubstr("/scenes"));
    EXPECT_THAT(error, ::testing::Not(HasSubstr("outlines")));
  }
}

TEST_F(FindDataTest, AModelOfNoKnownKindIsNamed) {
  EXPECT_THAT(ErrorOf(ModelOfClass("WanPipeline"), ""),
              HasSubstr("a WanPipeline is not supported"));
  EXPECT_THAT(ErrorOf("/no/model", ""), HasSubstr("there is no model folder /no/model"));
}

TEST_F(FindDataTest, TheUsersFolderIsUsed) {
  const auto found = FindDataFor("/no/model", "", "/my/pictures", [](const std::string&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "/my/pictures");
}

}  // namespace
}  // namespace dpipe::models

#include "models/folder/pipeline_folder.h"

#include <filesystem>
#include <set>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::ElementsAre;
namespace fs = std::filesystem;

class CopyComponentTest : public ::testing::Test {
 protected:
  // Every file's content is its name.
  void Write(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ASSERT_TRUE(MakeParentFolder(from_.File(name)).ok());
      ASSERT_TRUE(WriteFileAtomically(from_.File(name), name).ok());
    }
  }
  std::set<std::string> Copied(bool with_weights) {
    fs::remove_all(to_.path());
    const absl::Status status = CopyComponent(from_.path(), to_.path(), with_weights);
    EXPECT_TRUE(status.ok()) << status;
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(to_.path())) {
      names.insert(entry.path().filename().string());
    }
    const auto size = SizeOfCopy(from_.path(), with_weights);
    EXPECT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->num_files, static_cast<int64_t>(names.size()));
    int64_t bytes = 0;
    for (const std::string& name : names) bytes += fs::file_size(to_.File(name));
    EXPECT_EQ(size->bytes, bytes);
    return names;
  }

  ScratchFolder from_, to_;
};

TEST_F(CopyComponentTest, CopiesTheVariantThatIsRead) {
  Write({"config.json", ".hidden", "old/config.json", "diffusion_pytorch_model.bin",
         "diffusion_pytorch_model.fp16.bin", "diffusion_pytorch_model.safetensors",
         "diffusion_pytorch_model.fp16.safetensors", "diffusion_pytorch_model.non_ema.safetensors",
         "diffusion_flax_model.msgpack"});
  EXPECT_THAT(Copied(true), ElementsAre("config.json", "diffusion_pytorch_model.safetensors"));
  EXPECT_EQ(*ReadFile(to_.File("diffusion_pytorch_model.safetensors")),
            "diffusion_pytorch_model.safetensors");
  EXPECT_THAT(Copied(false), ElementsAre("config.json"));
}

TEST_F(CopyComponentTest, VariantsAreFoundByDefault) {
  Write({"config.json", "model.fp16.safetensors"});
  EXPECT_THAT(Copied(true), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(*ReadFile(to_.File("model.safetensors")), "model.fp16.safetensors");
}

TEST_F(CopyComponentTest, ShardsAreCopiedWithTheirIndex) {
  Write({"model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors",
         "model-00001-of-00002.safetensors"});
  ASSERT_TRUE(WriteFileAtomically(from_.File("model.safetensors.index.fp16.json"),
                                  R"({"weight_map": {"a": "model.fp16-00001-of-00002.safetensors",
                                      "b": "model.fp16-00002-of-00002.safetensors"}})")
                  .ok());
  EXPECT_THAT(Copied(true),
              ElementsAre("model.fp16-00001-of-00002.safetensors",
                          "model.fp16-00002-of-00002.safetensors", "model.safetensors.index.json"));
}

// An example is a safety checker, which is not loaded here, but by other programs.
TEST_F(CopyComponentTest, PyTorchOnlyWeightsAreCopied) {
  Write({"config.json", "pytorch_model.bin"});
  EXPECT_THAT(Copied(true), ElementsAre("config.json", "pytorch_model.bin"));
}

TEST_F(CopyComponentTest, AMissingFolderIsNamed) {
  EXPECT_THAT(std::string(CopyComponent("/no/vae", to_.path(), true).message()),
              ::testing::HasSubstr("/no/vae"));
}

}  // namespace
}  // namespace dpipe::models

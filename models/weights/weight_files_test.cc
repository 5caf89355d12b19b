#include "models/weights/weight_files.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

std::string EmptyFolder() {
  const std::string folder = testing::TempDir() + "/weight_files";
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(MakeFolder(folder).ok());
  return folder;
}

// Writes tensors of one number each, their position.
void WriteFile(const std::string& path, const std::vector<std::string>& names) {
  std::vector<float> numbers(names.size());
  std::vector<SafetensorsView> views;
  for (size_t i = 0; i < names.size(); ++i) {
    numbers[i] = static_cast<float>(i);
    views.push_back(
        {names[i], "F32", {1}, absl::string_view(reinterpret_cast<char*>(&numbers[i]), 4)});
  }
  ASSERT_TRUE(WriteSafetensors(path, views).ok());
}

std::string NamesIn(const WeightFiles& weights) {
  std::string names;
  for (const SafetensorsFile& file : weights.files) {
    for (const SafetensorsView& view : file.tensors()) absl::StrAppend(&names, view.name, ";");
  }
  return names;
}

TEST(WeightFilesTest, FullPrecisionComesFirst) {
  const std::string folder = EmptyFolder();
  EXPECT_FALSE(HasWeights(folder));
  EXPECT_FALSE(HasWeights(folder + "/missing"));
  EXPECT_EQ(OpenWeights(folder).status().code(), absl::StatusCode::kNotFound);
  // Each name takes precedence over the ones above it.
  for (const std::string name :
       {"model.bf16.safetensors", "diffusion_pytorch_model.bf16.safetensors",
        "diffusion_pytorch_model.fp16.safetensors", "model.safetensors",
        "diffusion_pytorch_model.safetensors"}) {
    WriteFile(folder + "/" + name, {"in " + name});
    EXPECT_TRUE(HasWeights(folder));
    const auto weights = OpenWeights(folder);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->name, folder + "/" + name);
    EXPECT_EQ(NamesIn(*weights), "in " + name + ";");
  }
}

TEST(WeightFilesTest, ListsFilesThatAreRead) {
  const std::string folder = EmptyFolder();
  EXPECT_EQ(WeightFileNames(folder).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(folder + "/model.safetensors.index.fp16.json",
                                  R"({"weight_map": {"a": "two.safetensors", "b": "one.safetensors",
                                      "c": "two.safetensors"}})")
                  .ok());
  EXPECT_EQ(WeightFileNames(folder).value(),
            std::vector<std::string>(
                {"model.safetensors.index.fp16.json", "one.safetensors", "two.safetensors"}));
  WriteFile(folder + "/model.safetensors", {"a"});
  EXPECT_EQ(WeightFileNames(folder).value(), std::vector<std::string>({"model.safetensors"}));
}

TEST(WeightFilesTest, RecognizesWeightFilesByName) {
  for (const char* name :
       {"model.safetensors", "model.fp16.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json", "diffusion_pytorch_model.non_ema.bin",
        "flax_model.msgpack", "tf_model.h5", "model.onnx", "model.ckpt", "model.pt"}) {
    EXPECT_TRUE(IsWeightFile(name)) << name;
  }
  for (const char* name : {"config.json", "merges.txt", "vocab.json", "tokenizer.json",
                           "spiece.model", "preprocessor_config.json"}) {
    EXPECT_FALSE(IsWeightFile(name)) << name;
  }
  EXPECT_EQ(WithoutVariant("model.fp16.safetensors"), "model.safetensors");
  EXPECT_EQ(WithoutVariant("model.safetensors.index.bf16.json"), "model.safetensors.index.json");
  EXPECT_EQ(WithoutVariant("model.safetensors"), "model.safetensors");
}

TEST(WeightFilesTest, UnsupportedFilesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"pytorch_model.bin"}, "/pytorch_model.bin: weights in PyTorch's own format are not read"},
      {{"diffusion_pytorch_model.bin.index.json", "diffusion_pytorch_model-00001-of-00002.bin"},
       "/diffusion_pytorch_model-00001-of-00002.bin: weights in PyTorch's own format"},
      {{"flax_model.msgpack", "unet.ckpt"}, "/unet.ckpt: weights in PyTorch's own format"},
      {{"flax_model.msgpack"}, "/flax_model.msgpack: weights in Flax's own format"},
      {{"tf_model.h5", "config.json"}, "/tf_model.h5: weights in TensorFlow's own format"},
      {{"unet.safetensors"}, "/unet.safetensors has an unrecognised name; rename it to "},
  };
  for (const auto& [names, expected] : cases) {
    const std::string folder = EmptyFolder();
    for (const std::string& name : names) {
      ASSERT_TRUE(WriteFileAtomically(folder + "/" + name, "x").ok());
    }
    EXPECT_TRUE(HasWeights(folder)) << "not a folder to fill with random weights";
    const auto weights = OpenWeights(folder);
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr(folder + expected));
    EXPECT_LT(weights.status().message().size(), folder.size() + 300);
  }
}

TEST(WeightFilesTest, ShardsTogetherAreTheWeights) {
  for (const std::string name :
       {"diffusion_pytorch_model.safetensors.index.json", "model.safetensors.index.json",
        "model.safetensors.index.fp16.json"}) {
    const std::string folder = EmptyFolder();
    WriteFile(folder + "/one.safetensors", {"a", "c"});
    WriteFile(folder + "/two.safetensors", {"b"});
    ASSERT_TRUE(WriteFileAtomically(folder + "/" + name, R"({"metadata": {"total_size": 12},
        "weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}})")
                    .ok());
    for (const std::string& path : {folder, folder + "/" + name}) {
      const auto weights = OpenWeights(path);
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ(weights->files.size(), 2u);
      EXPECT_EQ(NamesIn(*weights), "a;c;b;");
    }
  }
}

TEST(WeightFilesTest, BadIndicesAreRefused) {
  const std::string folder = EmptyFolder();
  WriteFile(folder + "/one.safetensors", {"a", "c"});
  WriteFile(testing::TempDir() + "/outside.safetensors", {"a"});
  const std::string index = folder + "/model.safetensors.index.json";
  const struct {
    std::string map, message;
  } cases[] = {
      {R"({"a": "one.safetensors", "c": "one.safetensors", "b": "one.safetensors"})",
       "b is not in " + folder + "/one.safetensors, where it is listed"},
      {R"({"a": "one.safetensors"})", "c is in " + folder + "/one.safetensors, where it is not"},
      {R"({"a": "two.safetensors"})", folder + "/two.safetensors"},
      {R"({"a": "../outside.safetensors"})", "not a .safetensors file of the folder"},
      {R"({"a": "/etc/outside.safetensors"})", "not a .safetensors file of the folder"},
      {R"({"a": "..\\outside.safetensors"})", "not a .safetensors file of the folder"},
      {R"({"a": ".safetensors"})", "not a .safetensors file of the folder"},
      {R"({"a": "one.safetensors\u0000.safetensors"})", "not a .safetensors file of the folder"},
      {R"({"a": ""})", "not a .safetensors file of the folder"},
      {R"({"a": "model.bin"})", "not a .safetensors file of the folder"},
      {R"({"a": 7})", "a is in 7, not a .safetensors file"},
      {R"({})", "no object \"weight_map\""},
      {R"("one.safetensors")", "no object \"weight_map\""},
  };
  for (const auto& c : cases) {
    ASSERT_TRUE(WriteFileAtomically(index, absl::StrCat(R"({"weight_map": )", c.map, "}")).ok());
    const auto weights = OpenWeights(folder);
    EXPECT_FALSE(weights.ok()) << c.map;
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr(c.message)) << c.map;
  }
  for (const std::string text : {"", "[]", "{\"weight_map\": {\"a\"", "{}"}) {
    ASSERT_TRUE(WriteFileAtomically(index, text).ok());
    EXPECT_EQ(OpenWeights(folder).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  std::string deep = "{\"weight_map\": ";
  for (int i = 0; i < 100000; ++i) deep += "[";
  ASSERT_TRUE(WriteFileAtomically(index, deep).ok());
  EXPECT_FALSE(OpenWeights(folder).ok());
}

}  // namespace
}  // namespace dpipe::models

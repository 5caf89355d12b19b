#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/lora/lora.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

std::string TestFile(const char* name) { return std::string(std::getenv("TEST_TMPDIR")) + name; }

// Loads for a U-Net with layers "a" and "b_c.d" and a text encoder with "text_model.e".
absl::StatusOr<LoraAdapters> Load(const std::string& path, float scale = 1) {
  return LoadLora(path, scale,
                  {AdaptableLayers(std::set<std::string>{"a", "b_c.d"}),
                   AdaptableLayers(std::set<std::string>{"text_model.e"})});
}

// Writes one adapter of rank 4 for a layer "a" of 2 x 3, all ones, with diffusers' metadata.
std::string FileWithMetadata(const std::string& metadata) {
  const std::string path = TestFile("/with_metadata.safetensors");
  const std::vector<float> ones(12, 1.0f);
  const absl::string_view down(reinterpret_cast<const char*>(ones.data()), 12 * sizeof(float));
  SafetensorsWriteOptions options;
  options.metadata = {{"format", "pt"}, {"lora_adapter_metadata", metadata}};
  const absl::Status written =
      WriteSafetensors(path,
                       {{"unet.a.lora_A.weight", "F32", {4, 3}, down},
                        {"unet.a.lora_B.weight", "F32", {2, 4}, down.substr(0, 8 * sizeof(float))}},
                       options);
  EXPECT_TRUE(written.ok()) << written;
  return path;
}

// Shortened from diffusers' output (save_lora_weights with unet_lora_adapter_metadata).
TEST(LoraFileTest, AppliesTheMetadatasScale) {
  const Tensor base = Tensor::Zeros(Device::Cpu(), {2, 3}, DType::kF32);
  const struct {
    const char* metadata;
    float scale;
  } cases[] = {
      {R"({"unet.alpha_pattern": {}, "unet.lora_alpha": 8, "unet.peft_type": "LORA", "unet.r": 4,
           "unet.rank_pattern": {}, "unet.use_dora": false, "unet.use_rslora": false})",
       2},
      {R"({"lora_alpha": 2.0, "r": 4})", 0.5f},
      {R"({"unet.lora_alpha": 2, "unet.r": 3, "unet.rank_pattern": {"a": 4},
           "unet.alpha_pattern": {"a": 16}})",
       4},
      {R"({"text_encoder.lora_alpha": 8, "text_encoder.r": 4})", 1},
      {"{}", 1},
  };
  for (const auto& c : cases) {
    const auto adapters = Load(FileWithMetadata(c.metadata));
    ASSERT_TRUE(adapters.ok()) << adapters.status();
    const auto merged = MergeLora({{"a.weight", base}}, adapters->unet, 1);
    ASSERT_TRUE(merged.ok()) << merged.status();
    for (float x : merged->at("a.weight").span<float>()) EXPECT_EQ(x, 4 * c.scale) << c.metadata;
    // To be applied with a scale of 3.
    EXPECT_EQ(Load(FileWithMetadata(c.metadata), 3)->unet.at("a.lora_B.weight").data<float>()[0],
              c.scale / 3);
  }
}

TEST(LoraFileTest, MetadataThatCannotBeFollowedIsNamed) {
  const struct {
    const char *metadata, *message;
  } cases[] = {
      {R"([1])", "/with_metadata.safetensors: lora_adapter_metadata: expected a JSON object"},
      {R"({"unet.lora_alpha": 8})", "'lora_alpha' is 8 and 'r' is null"},
      {R"({"unet.lora_alpha": 8, "unet.r": 16})",
       "lora_adapter_metadata sets the rank of a to 16, but its tensors have rank 4"},
      {R"({"unet.use_dora": true})", "'use_dora' is true, which is not supported"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(Load(FileWithMetadata(c.metadata)).status().message()),
                HasSubstr(c.message));
  }
}

// A tensor with these fp32 numbers.
struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::string FileOf(const std::vector<Stored>& tensors) {
  const std::string path = TestFile("/stored.safetensors");
  std::vector<SafetensorsView> views;
  for (const Stored& t : tensors) {
    views.push_back({t.name, "F32", t.shape,
                     absl::string_view(reinterpret_cast<const char*>(t.values.data()),
                                       t.values.size() * sizeof(float))});
  }
  EXPECT_TRUE(WriteSafetensors(path, views).ok());
  return path;
}

// Each layer uses its own alpha over its own rank; without an alpha the scale is 1.
TEST(LoraFileTest, AppliesAlphasOfLayers) {
  const auto adapters = Load(FileOf({{"lora_unet_a.lora_down.weight", {2, 1}, {1, 1}},
                                     {"lora_unet_a.lora_up.weight", {1, 2}, {3, 5}},
                                     {"lora_unet_a.alpha", {}, {1}},
                                     {"lora_unet_b_c_d.lora_down.weight", {1, 1, 1, 1}, {1}},
                                     {"lora_unet_b_c_d.lora_up.weight", {1, 1, 1, 1}, {7}},
                                     {"lora_unet_b_c_d.alpha", {1}, {4}},
                                     {"lora_te_text_model_e.lora_down.weight", {1, 1}, {1}},
                                     {"lora_te_text_model_e.lora_up.weight", {1, 1}, {9}}}),
                             /*scale=*/2);
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  EXPECT_EQ(adapters->unet.at("a.lora_B.weight").data<float>()[1], 5 * 0.5f / 2);
  EXPECT_EQ(adapters->unet.at("b_c.d.lora_B.weight").data<float>()[0], 7 * 4.0f / 2);
  EXPECT_EQ(adapters->text_encoder.at("text_model.e.lora_B.weight").data<float>()[0], 9);
}

TEST(LoraFileTest, AlphaMayBeAnInteger) {
  const std::string path = TestFile("/integer.safetensors");
  const float one = 1;
  const int64_t two = 2;
  const absl::string_view number(reinterpret_cast<const char*>(&one), sizeof(one));
  const absl::string_view integer(reinterpret_cast<const char*>(&two), sizeof(two));
  ASSERT_TRUE(WriteSafetensors(path, {{"a.alpha", "I64", {}, integer},
                                      {"a.lora_A.weight", "F32", {1, 1}, number},
                                      {"a.lora_B.weight", "F32", {1, 1}, number}})
                  .ok());
  const auto adapters = Load(path);
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  EXPECT_EQ(adapters->unet.at("a.lora_B.weight").data<float>()[0], 2);
}

// Other tools add these names: see models/lora/lora_names.h.
TEST(LoraFileTest, UnusedTensorsAreNotedInOneLine) {
  std::vector<Stored> tensors = {{"a.lora_A.default.weight", {1, 1}, {2}},
                                 {"a.lora_B.default.weight", {1, 1}, {3}},
                                 {"unet.of_another_model.lora_A.weight", {1, 1}, {1}}};
  for (int i = 0; i < 9; ++i) {
    tensors.push_back({absl::StrCat("bundle_emb.token", i, ".string_to_param.*"), {1}, {1}});
  }
  const std::string path = FileOf(tensors);
  const auto adapters = Load(path);
  ASSERT_TRUE(adapters.ok()) << adapters.status();
  EXPECT_EQ(adapters->unet.size(), 2u);
  EXPECT_EQ(adapters->unet.at("a.lora_B.weight").data<float>()[0], 3);
  ASSERT_EQ(adapters->notes.size(), 1u);
  EXPECT_EQ(adapters->notes[0],
            path +
                ": 10 of its 12 tensors are no adapters of this model's layers and are not used: "
                "bundle_emb.token0.string_to_param.*, bundle_emb.token1.string_to_param.*, "
                "bundle_emb.token2.string_to_param.*, bundle_emb.token3.string_to_param.*, "
                "bundle_emb.token4.string_to_param.* and 5 more");
}

std::string EmptyFolder(const char* name) {
  const std::string folder = TestFile(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// PEFT's save_pretrained writes a file and a configuration beside it.
TEST(LoraFileTest, AppliesPeftsConfiguration) {
  const std::string folder = EmptyFolder("/peft");
  const std::string file = folder + "/adapter_model.safetensors";
  std::filesystem::copy(FileOf({{"base_model.model.a.lora_A.weight", {1, 1}, {2}},
                                {"base_model.model.a.lora_B.weight", {1, 1}, {3}},
                                {"base_model.model.e.lora_A.weight", {1, 1}, {5}},
                                {"base_model.model.e.lora_B.weight", {1, 1}, {7}}}),
                        file);
  EXPECT_EQ(*FindLoraFile(folder), file);
  const auto without = Load(file);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->text_encoder.at("text_model.e.lora_B.weight").data<float>()[0], 7);
  ASSERT_EQ(without->notes.size(), 1u);
  EXPECT_THAT(
      without->notes[0],
      HasSubstr("its adapters have scale 1, because there is no adapter_config.json beside it"));

  const std::string config = folder + "/adapter_config.json";
  ASSERT_TRUE(WriteFileAtomically(config, R"({"peft_type": "LORA", "r": 1, "lora_alpha": 4,
                                              "alpha_pattern": {"^e": 3}})")
                  .ok());
  const auto with = Load(file);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE(with->notes.empty());
  EXPECT_EQ(with->unet.at("a.lora_B.weight").data<float>()[0], 3 * 4);
  EXPECT_EQ(with->text_encoder.at("text_model.e.lora_B.weight").data<float>()[0], 7 * 3);
  // The name of the file does not matter if its tensors have PEFT's names.
  std::filesystem::rename(file, folder + "/cat.safetensors");
  EXPECT_EQ(Load(folder + "/cat.safetensors")->unet.at("a.lora_B.weight").data<float>()[0], 12);
  ASSERT_TRUE(WriteFileAtomically(config, R"({"peft_type": "LOHA"})").ok());
  EXPECT_EQ(Load(folder + "/cat.safetensors").status().message(),
            config +
                ": 'peft_type' is \"LOHA\", which is not supported; merge the adapters into the "
                "model with PEFT's merge_and_unload");
}

TEST(LoraFileTest, FoldersWithoutAFileListOtherFiles) {
  const std::string folder = EmptyFolder("/none");
  const std::string missing = absl::StrCat("no low-rank adapter file ", folder, "/", kLoraFile,
                                           " or ", folder, "/", kPeftLoraFile);
  EXPECT_EQ(FindLoraFile(folder).status().message(), missing);
  ASSERT_TRUE(WriteFileAtomically(folder + "/cat.safetensors", "x").ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/adapter_model.bin", "x").ok());
  EXPECT_EQ(FindLoraFile(folder).status().message(),
            missing + "; name one of the files there: adapter_model.bin, cat.safetensors");
  ASSERT_TRUE(MakeFolder(folder + "/unet").ok());
  ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder, "/unet/", kPeftLoraFile), "x").ok());
  EXPECT_THAT(std::string(FindLoraFile(folder).status().message()),
              HasSubstr("cat.safetensors, unet/adapter_model.safetensors"));
  EXPECT_EQ(FindLoraFile(folder + "/no").status().message(),
            "no low-rank adapter file " + folder + "/no");
}

TEST(LoraFileTest, OtherKindsOfFilesAreNamed) {
  const std::string path = TestFile("/lora.bin");
  ASSERT_TRUE(WriteFileAtomically(path, "\x80\x02}q\x01X\x04").ok());
  EXPECT_THAT(std::string(Load(path).status().message()),
              HasSubstr(path + ": a Python pickle (possibly an old PyTorch file), not a "
                               "safetensors file: convert it in Python: "));
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_THAT(std::string(Load(path).status().message()),
              HasSubstr(path + ": an empty file, not a safetensors file"));
  const std::string pipe = TestFile("/pipe.safetensors");
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(Load(pipe).status().message()), HasSubstr("not a regular file"));
}

TEST(LoraFileTest, NamesProblems) {
  const Stored down = {"unet.a.lora_A.weight", {1, 1}, {1}},
               up = {"unet.a.lora_B.weight", {1, 1}, {1}};
  const struct {
    std::vector<Stored> tensors;
    const char* message;
  } cases[] = {
      {{{"unet.a.weight", {1}, {1}}}, "unet.a.weight is a whole weight, not a low-rank adapter"},
      {{down, up, {"text_encoder.e.bias", {1}, {1}}}, "text_encoder.e.bias is a whole weight"},
      {{down, up, {"lora_te2_e.lora_up.weight", {1, 1}, {1}}},
       "lora_te2_e.lora_up.weight belongs to a second text encoder, as in SDXL, which this model"},
      {{{"unet.x.lora_A.weight", {1, 1}, {1}}},
       "none of its 1 tensors is an adapter of this model\n  expected: names like "
       "unet.LAYER.lora_A.weight or lora_unet_LAYER.lora_down.weight, with this model's layers\n  "
       "found: unet.x.lora_A.weight"},
      {{{"text_encoder.a.lora_A.weight", {1, 1}, {1}}}, "none of its 1 tensors is an adapter"},
      {{}, "holds no tensors"},
      {{{"unet.a.lora_A.weight", {1, 1}, {NAN}}, up}, "unet.a.lora_A.weight holds nan (element 0)"},
      {{down, {"unet.a.lora_B.weight", {1, 1}, {-INFINITY}}},
       "unet.a.lora_B.weight holds -inf (element 0): these weights are damaged"},
      {{down, {"unet.a.lora_B.weight", {1, 1}, {1e30f}}, {"unet.a.alpha", {}, {1e30f}}},
       "a.lora_B.weight holds inf"},
      {{{"unet.a.lora_A.weight", {1}, {1}}}, "is [1], expected a matrix or a convolution"},
      {{down, up, {"lora_unet_a.lora_up.weight", {1, 1}, {1}}}, "is a duplicate"},
      {{{"unet.a.alpha", {}, {1}}}, "there is an alpha of a, but no a.lora_B.weight"},
      {{down, up, {"unet.a.alpha", {2}, {1, 1}}}, "unet.a.alpha is not a finite number"},
      {{down, up, {"unet.a.alpha", {}, {INFINITY}}}, "unet.a.alpha holds inf"},
      {{{"lora_unet_a.hada_w1_a", {1, 1}, {1}}}, "belongs to LoHa, which is not supported"},
      {{{"unet.a.lora_magnitude_vector", {1}, {1}}}, "belongs to DoRA, which is not supported"},
  };
  for (const auto& c : cases) {
    const std::string path = FileOf(c.tensors);
    const std::string message(Load(path).status().message());
    EXPECT_THAT(message, HasSubstr(c.message));
    EXPECT_THAT(message, HasSubstr(path));
  }
}

}  // namespace
}  // namespace dpipe::models

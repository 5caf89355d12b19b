#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/lora/lora.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

std::string TestFile(const char* name) { return std::string(std::getenv("TEST_TMPDIR")) + name; }

// A U-Net with a layer "a" and one "b_c.d", a text encoder with "text_model.e".
absl::StatusOr<LoraAdapters> Load(const std::string& path, float scale = 1) {
  return LoadLora(path, scale,
                  {AdaptableLayers(std::set<std::string>{"a", "b_c.d"}),
                   AdaptableLayers(std::set<std::string>{"text_model.e"})});
}

// A file of one adapter of rank 4 for a layer "a" of 2 x 3, all ones, with diffusers' metadata.
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

// As diffusers writes it (save_lora_weights with unet_lora_adapter_metadata), shortened.
TEST(LoraFileTest, TheMetadatasScaleCounts) {
  const Tensor base = Tensor::Zeros(Device::Cpu(), {2, 3}, DType::kF32);
  const struct {
    const char* metadata;
    float scale;
  } cases[] = {
      {R"({"unet.alpha_pattern": {}, "unet.lora_alpha": 8, "unet.peft_type": "LORA", "unet.r": 4,
           "unet.rank_pattern": {}, "unet.use_dora": false, "unet.use_rslora": false})",
       2},
      {R"({"lora_alpha": 2.0, "r": 4})", 0.5f},
      {R"({"text_encoder.lora_alpha": 8, "text_encoder.r": 4})", 1},
      {"{}", 1},
  };
  for (const auto& c : cases) {
    const auto adapters = Load(FileWithMetadata(c.metadata));
    ASSERT_TRUE(adapters.ok()) << adapters.status();
    const auto merged = MergeLora({{"a.weight", base}}, adapters->unet, 1);
    ASSERT_TRUE(merged.ok()) << merged.status();
    for (float x : merged->at("a.weight").span<float>()) EXPECT_EQ(x, 4 * c.scale) << c.metadata;
    // As those that count three times.
    EXPECT_EQ(Load(FileWithMetadata(c.metadata), 3)->unet.at("a.lora_B.weight").data<float>()[0],
              c.scale / 3);
  }
}

TEST(LoraFileTest, MetadataThatCannotBeFollowedIsNamed) {
  const struct {
    const char *metadata, *message;
  } cases[] = {
      {R"([1])", "lora_adapter_metadata is no JSON object"},
      {R"({"unet.lora_alpha": 8})", "'lora_alpha' is 8 and 'r' is null"},
      {R"({"unet.lora_alpha": 8, "unet.r": 0})", "'lora_alpha' is 8 and 'r' is 0"},
      {R"({"unet.lora_alpha": "x", "unet.r": 4})", "'lora_alpha' is \"x\" and 'r' is 4"},
      {R"({"unet.lora_alpha": 8, "unet.r": 16})",
       "a.lora_A.weight is [4, 3], but lora_adapter_metadata says that 'r' is 16"},
      {R"({"unet.use_dora": true})", "'use_dora' is true, which is not supported"},
      {R"({"unet.alpha_pattern": {"a": 3}})", "'alpha_pattern' is {\"a\":3}"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(Load(FileWithMetadata(c.metadata)).status().message()),
                HasSubstr(c.message));
  }
}

// A tensor of these fp32 numbers.
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

// Each layer by its own alpha over its own rank; without one the scale is 1.
TEST(LoraFileTest, AlphasOfLayersCount) {
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

TEST(LoraFileTest, WhatIsWrongIsNamed) {
  const Stored down = {"unet.a.lora_A.weight", {1, 1}, {1}},
               up = {"unet.a.lora_B.weight", {1, 1}, {1}};
  const struct {
    std::vector<Stored> tensors;
    const char* message;
  } cases[] = {
      {{{"unet.a.weight", {1}, {1}}}, "unet.a.weight is not a low-rank adapter"},
      {{{"unet.x.lora_A.weight", {1, 1}, {1}}},
       "unet.x.lora_A.weight is for a layer that the U-Net does not have"},
      {{{"text_encoder.x.lora_A.weight", {1, 1}, {1}}},
       "for a layer that the text encoder does not have"},
      {{{"unet.a.lora_A.weight", {1}, {1}}}, "is [1], expected a matrix or a convolution"},
      {{down, up, {"lora_unet_a.lora_up.weight", {1, 1}, {1}}}, "is there a second time"},
      {{{"unet.a.alpha", {}, {1}}}, "there is an alpha of a, but no a.lora_B.weight"},
      {{down, up, {"unet.a.alpha", {2}, {1, 1}}}, "unet.a.alpha is not a finite number"},
      {{down, up, {"unet.a.alpha", {}, {INFINITY}}}, "unet.a.alpha is not a finite number"},
      {{{"lora_unet_a.hada_w1_a", {1, 1}, {1}}}, "is of LoHa, which is not supported"},
      {{{"unet.a.lora_magnitude_vector", {1}, {1}}}, "is of DoRA, which is not supported"},
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

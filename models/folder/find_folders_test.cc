// Tests that the built-in folders are found by name and have the stated sizes. Allocates nothing.
#include "models/folder/find_folders.h"

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/diffusion/noise_schedule.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"
#include "models/weights/weights.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string name;
  int64_t unet_parameters, text_parameters;
  int default_size;  // in pixels
  diffusion::PredictionType prediction;
};

const Case kCases[] = {
    {"stable_diffusion_v1_5", 859520964, 123060480, 512, diffusion::PredictionType::kEpsilon},
    {"stable_diffusion_v2_1", 865910724, 340387840, 768, diffusion::PredictionType::kV},
    {"stable_diffusion_v2_1_base", 865910724, 340387840, 512, diffusion::PredictionType::kEpsilon},
    {"stable_diffusion_xl", 2567463684, 123060480, 1024, diffusion::PredictionType::kEpsilon},
};

int64_t Count(const absl::StatusOr<nn::Program>& program) {
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? program->ParameterCount(program->all_layers()) : -1;
}

TEST(FoldersTest, FullSizeModelsHaveTheirParameters) {
  for (const Case& c : kCases) {
    const auto folder = FindModelFolder(c.name);
    ASSERT_TRUE(folder.ok()) << folder.status();
    const auto unet = ReadUNetConfig(*folder + "/unet/config.json");
    const auto vae = ReadVaeConfig(*folder + "/vae/config.json");
    const auto text = ReadClipTextConfig(*folder + "/text_encoder/config.json");
    ASSERT_TRUE(unet.ok() && vae.ok() && text.ok())
        << unet.status() << vae.status() << text.status();
    EXPECT_EQ(Count(BuildUNetForInference(*unet, {64, 64, 77})), c.unet_parameters) << c.name;
    EXPECT_EQ(Count(BuildVaeEncoder(*vae, 64, 64)), 34163664) << c.name;
    EXPECT_EQ(Count(BuildVaeDecoder(*vae, 64, 64)), 49490199) << c.name;
    EXPECT_EQ(Count(BuildClipText(*text, 77)), c.text_parameters) << c.name;
    EXPECT_EQ(unet->sample_size * vae->downscale(), c.default_size) << c.name;
    EXPECT_FALSE(HasWeights(*folder + "/unet"));
  }
}

TEST(FoldersTest, SchedulersAndTokenizersAreWhole) {
  for (const Case& c : kCases) {
    const std::string folder = *FindModelFolder(c.name);
    const auto json = ReadFile(folder + "/scheduler/scheduler_config.json");
    ASSERT_TRUE(json.ok()) << json.status();
    const auto schedule = diffusion::ParseSchedulerConfig(*json);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(schedule->prediction_type, c.prediction) << c.name;
    const auto tokenizer = ClipTokenizer::Load(folder + "/tokenizer");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(tokenizer->max_length(), 77);
    for (const char* file : {"vocab.json", "merges.txt"}) {
      EXPECT_EQ(*ReadFile(folder + "/tokenizer/" + file),
                *ReadFile(std::string("data/tiny_sd/tokenizer/") + file));
    }
  }
}

TEST(FoldersTest, UnknownNamesAreRefused) {
  EXPECT_THAT(
      std::string(FindModelFolder("stable_diffusion_v9").status().message()),
      HasSubstr("unknown --model=stable_diffusion_v9; give a folder in diffusers layout or a "
                "built-in name: tiny_sd, "));
  EXPECT_EQ(*FindModelFolder("tiny_sd"), "data/tiny_sd");
}

TEST(FoldersTest, NothingIsDownloaded) {
  EXPECT_THAT(std::string(FindModelFolder("runwayml/stable-diffusion-v1-5").status().message()),
              HasSubstr("then --model=stable-diffusion-v1-5"));
  const auto data = FindDataFolder("lambdalabs/pokemon", [](const std::string&) {});
  EXPECT_THAT(std::string(data.status().message()), HasSubstr("--repo-type dataset"));
}

}  // namespace
}  // namespace dpipe::models

// Tests Stable Diffusion trained on patches: the U-Net with coordinates, and its steps' inputs.
#include <cstring>
#include <string>
#include <vector>

#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/image_sampler.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/training_setup.h"
#include "models/unet/unet_denoiser.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";

const UNetConfig& UNetOf(const LatentPipeline& pipeline) {
  return dynamic_cast<const UNetDenoiser&>(pipeline.denoiser()).config();
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

absl::StatusOr<Image> DrawOne(const LatentPipeline& model, const NamedTensors& unet) {
  const auto workers = StartWorkers({Device::Cpu()});
  DrawOptions drawing;
  drawing.num_steps = 3;
  DPIPE_ASSIGN_OR_RETURN(const auto sampler, ImageSampler::Create(&model, unet, DType::kF32));
  DPIPE_ASSIGN_OR_RETURN(const auto images,
                         sampler->Draw({"a red circle"}, drawing, {workers[0].get()}));
  return images[0];
}

// Has the same weights, from the folder or random, with zeros for the coordinates.
TEST(PatchDiffusionTest, StartsAsThePlainModel) {
  const auto plain = LoadStableDiffusion(kTinySd, {});
  LoadModelOptions options;
  options.coordinates = true;
  const auto placed = LoadStableDiffusion(kTinySd, options);
  ASSERT_TRUE(plain.ok() && placed.ok()) << plain.status() << placed.status();
  for (const bool random : {false, true}) {
    const NamedTensors narrow = random ? (*plain)->RandomDenoiser(5) : *(*plain)->LoadDenoiser();
    NamedTensors wide = random ? (*placed)->RandomDenoiser(5) : *(*placed)->LoadDenoiser();
    const auto expected = DrawOne(**plain, narrow);
    const auto actual = DrawOne(**placed, wide);
    ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
    for (size_t i = 0; i < expected->pixels.size(); ++i) {
      ASSERT_NEAR(expected->pixels[i], actual->pixels[i], 1) << "byte " << i;
    }
    // The zeros are the reason.
    Tensor& conv_in = wide.at("conv_in.weight");
    conv_in.data<float>()[conv_in.num_elements() - 1] = 10;
    EXPECT_NE(DrawOne(**placed, wide)->pixels, actual->pixels);
    wide.erase("conv_in.weight");
    for (const auto& [name, tensor] : wide) EXPECT_TRUE(SameBits(tensor, narrow.at(name))) << name;
  }
}

TEST(PatchDiffusionTest, CoordinatesAreKeptByTheFolder) {
  LoadModelOptions options;
  options.coordinates = true;
  const auto placed = LoadStableDiffusion(kTinySd, options);
  ASSERT_TRUE(placed.ok()) << placed.status();
  const std::string saved = ::testing::TempDir() + "/placed";
  ASSERT_TRUE((*placed)->Save(saved, (*placed)->RandomDenoiser(1)).ok());
  for (const bool asked : {false, true}) {
    options.coordinates = asked;
    const auto again = LoadStableDiffusion(saved, options);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(UNetOf(**again).coordinates());
    EXPECT_EQ((*again)->LoadDenoiser()->at("conv_in.weight").dim(1), 6);
  }
  options.self_conditioning = true;
  EXPECT_THAT(std::string(LoadStableDiffusion(kTinySd, options).status().message()),
              HasSubstr("self-conditioning and training on patches cannot be combined"));
  options.coordinates = false;
  EXPECT_THAT(std::string(LoadStableDiffusion(saved, options).status().message()),
              HasSubstr("the U-Net has 6 input channels; self-conditioning needs 8, or 4"));
  options = {};
  options.coordinates = true;
  options.lora.rank = 2;
  EXPECT_EQ(
      LoadStableDiffusion(kTinySd, options).status().message(),
      "training on patches needs training of the whole U-Net, not of adapters or a ControlNet");
}

TrainingSetupOptions PatchOptions() {
  BuiltInDatasetOptions scenes;
  scenes.count = 8;
  TrainingSetupOptions options;
  options.model_folder = kTinySd;
  options.data.folder = ::testing::TempDir() + "/patch_scenes";
  const absl::Status status = EnsureBuiltInDataset(options.data.folder, scenes);
  EXPECT_TRUE(status.ok()) << status;
  options.num_devices = 1;
  options.global_batch = 4;
  options.seed = 11;
  options.patch_share = 0.5;
  return options;
}

TEST(PatchDiffusionTest, InputsAreThoseOfThePatches) {
  const auto setup = TrainingSetup::Create(PatchOptions());
  ASSERT_TRUE(setup.ok()) << setup.status();
  DataLoader& loader = (*setup)->loader();
  EXPECT_EQ(loader.SizesInUse().size(), 3u);
  EXPECT_THAT((*setup)->Describe(), HasSubstr("patches of 64 x 64, 32 x 32, 16 x 16"));
  for (const DataLoader::SizeInUse& use : loader.SizesInUse()) {
    const auto load = [&](const char* component, const char* input) {
      const auto loaded =
          (*setup)->job().inputs->Load(component, input, use.first_step, {1, 3}, Device::Cpu());
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      return *loaded;
    };
    const int64_t side = use.size.width, latents = side / 4;
    EXPECT_EQ(load("vae_encoder", "pixels").shape(), (Shape{2, side, side, 3}));
    EXPECT_EQ(load("unet", "noise").shape(), (Shape{2, latents, latents, 4}));
    const Tensor places = load("unet", "coordinates");
    ASSERT_EQ(places.shape(), (Shape{2, latents, latents, 2}));
    for (int i = 0; i < 2; ++i) {
      const Patch patch = loader.PatchOf(use.first_step, 1 + i);
      const float* first = places.Slice(i, i + 1).data<float>();
      EXPECT_NEAR(first[0], 2 * (patch.left / 4.0) / 15 - 1, 1e-6);
      EXPECT_NEAR(first[1], 2 * (patch.top / 4.0) / 15 - 1, 1e-6);
    }
  }
}

TEST(PatchDiffusionTest, OptionsIncompatibleWithPatchesAreNamed) {
  const auto error = [](const TrainingSetupOptions& options) {
    return std::string(TrainingSetup::Create(options).status().message());
  };
  TrainingSetupOptions options = PatchOptions();
  options.max_aspect = 2;
  EXPECT_THAT(error(options), HasSubstr("patch_share is 0.5 and max_aspect is 2"));
  options = PatchOptions();
  options.model.image_size = 24;
  EXPECT_THAT(error(options), HasSubstr("half of 24 pixels is not a multiple of 8"));
  const auto setup = TrainingSetup::Create(PatchOptions());
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_THAT(std::string((*setup)->BuildCache(2).status().message()),
              HasSubstr("random crop or flip, or with patches"));
}

}  // namespace
}  // namespace dpipe::models

// Tests Stable Diffusion as a whole: loading, saving, drawing.
#include "models/stable_diffusion/stable_diffusion.h"

#include <array>
#include <cstring>

#include "core/base/files/file.h"
#include "core/nn/model.h"
#include "data/images/image_grid.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/image_sampler.h"
#include "models/latent/trainable.h"
#include "models/unet/unet_denoiser.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";
constexpr int kUNet = kFirstTextEncoder + 1;

const UNetConfig& UNetOf(const LatentPipeline& pipeline) {
  return dynamic_cast<const UNetDenoiser&>(pipeline.denoiser()).config();
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

TEST(StableDiffusionTest, LoadsTheBuiltInModel) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->image_size(), 64);
  EXPECT_EQ((*model)->latent_size().height, 16);
  EXPECT_EQ((*model)->model().backbone_index(), kUNet);
  const nn::Program& unet = (*model)->model().component(kUNet).program;
  EXPECT_EQ(unet.ParameterCount(unet.all_layers()), 2220820);
  const auto weights = (*model)->LoadDenoiser();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(static_cast<int>(weights->size()), unet.num_parameters());
}

TEST(StableDiffusionTest, ModelsOfOtherSizesHaveTheSameStructure) {
  LoadModelOptions adapted;
  adapted.lora.rank = 2;
  LoadModelOptions self_conditioned;
  self_conditioned.self_conditioning = true;
  LoadModelOptions placed;
  placed.coordinates = true;
  for (const LoadModelOptions& options : {{}, adapted, self_conditioned, placed}) {
    const auto model = LoadStableDiffusion(kTinySd, options);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->parts().size_multiple(), 8) << "4 of the VAE, 2 of the U-Net";
    const auto wide = (*model)->MakeModel({80, 48});
    ASSERT_TRUE(wide.ok()) << wide.status();
    const absl::Status same = nn::CheckSameStructure((*model)->model(), *wide);
    EXPECT_TRUE(same.ok()) << same;
    const nn::Program& unet = wide->component(kUNet).program;
    EXPECT_EQ(unet.value(unet.InputNamed("noise")).type.shape, Shape({12, 20, 4}));
    EXPECT_THAT(std::string((*model)->MakeModel({80, 44}).status().message()),
                HasSubstr("pictures of 80 x 44 pixels: both sides must be multiples of 8"));
  }
}

TEST(StableDiffusionTest, SavesAFolderThatLoadsTheSame) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto unet = (*model)->RandomDenoiser(3);
  const std::string folder = ::testing::TempDir() + "/saved";
  ASSERT_TRUE((*model)->Save(folder, unet).ok());
  const auto again = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto loaded = (*again)->LoadDenoiser();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [name, tensor] : unet) EXPECT_TRUE(SameBits(tensor, loaded->at(name))) << name;
  EXPECT_FALSE((*again)->Save(folder, unet).ok()) << "over itself";
}

// An image depends on its number, the seed and the prompt, but not on the batch or the workers.
TEST(ImageSamplerTest, DrawsTheSameInAnyBatch) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  const std::vector<std::shared_ptr<Device>> devices = {Device::Cpu(), Device::Cpu()};
  const auto workers = StartWorkers(devices);
  const std::vector<std::string> prompts = {"a red circle", "a blue square", "a green star"};
  DrawOptions options;
  options.num_steps = 4;
  options.batch = 3;
  const auto together = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.batch = 2;
  const auto apart = (*sampler)->Draw(prompts, options, {workers[0].get(), workers[1].get()});
  ASSERT_TRUE(together.ok() && apart.ok()) << together.status() << apart.status();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*together)[i].pixels, (*apart)[i].pixels) << "image " << i;
  EXPECT_NE((*together)[0].pixels, (*together)[1].pixels);
  const Image grid = MakeGrid(*together, {/*columns=*/2, /*margin=*/3, /*zoom=*/2});
  EXPECT_EQ(grid.width, 2 * (128 + 3) + 3);
  EXPECT_EQ(grid.height, 2 * (128 + 3) + 3);
}

// A guidance of 1 is the conditional prediction alone, and the limit of guidance near 1. Bytes may
// differ by one, because the U-Net's kernels may depend on the number of samples.
TEST(ImageSamplerTest, GuidanceOfOneIsTheLimitOfGuidance) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  const auto workers = StartWorkers({Device::Cpu()});
  const std::vector<std::string> prompts = {"a red circle", "a blue square"};
  DrawOptions options;
  options.num_steps = 3;
  options.guidance = 1;
  options.should_stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled((*sampler)->Draw(prompts, options, {workers[0].get()}).status()));
  options.should_stop = nullptr;
  const auto alone = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.guidance = 1 + 1e-6f;
  const auto guided = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.guidance = 4;
  const auto strongly = (*sampler)->Draw(prompts, options, {workers[0].get()});
  ASSERT_TRUE(alone.ok() && guided.ok() && strongly.ok())
      << alone.status() << guided.status() << strongly.status();
  for (int i = 0; i < 2; ++i) {
    for (size_t p = 0; p < (*alone)[i].pixels.size(); ++p) {
      ASSERT_NEAR((*alone)[i].pixels[p], (*guided)[i].pixels[p], 1) << "image " << i;
    }
    EXPECT_NE((*alone)[i].pixels, (*strongly)[i].pixels);
  }
}

// With zero weights for the channels of the U-Net's own estimate, pictures do not change.
TEST(SelfConditioningTest, StartsAsThePlainModelAndIsKept) {
  const auto plain = LoadStableDiffusion(kTinySd, {});
  LoadModelOptions options;
  options.self_conditioning = true;
  const auto requested = LoadStableDiffusion(kTinySd, options);
  ASSERT_TRUE(plain.ok() && requested.ok()) << plain.status() << requested.status();
  EXPECT_EQ((*requested)->model().component(kUNet).self_conditioning.input, "estimate");
  const auto workers = StartWorkers({Device::Cpu()});
  DrawOptions drawing;
  drawing.num_steps = 3;
  std::vector<std::vector<Image>> images;
  for (const auto* model : {&*plain, &*requested}) {
    const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
    ASSERT_TRUE(sampler.ok()) << sampler.status();
    images.push_back(*(*sampler)->Draw({"a red circle"}, drawing, {workers[0].get()}));
  }
  for (size_t i = 0; i < images[0][0].pixels.size(); ++i) {
    ASSERT_NEAR(images[0][0].pixels[i], images[1][0].pixels[i], 1) << "byte " << i;
  }
  const std::string saved = ::testing::TempDir() + "/self_conditioned";
  ASSERT_TRUE((*requested)->Save(saved, *(*requested)->LoadDenoiser()).ok());
  const auto again = LoadStableDiffusion(saved, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(UNetOf(**again).self_conditioning());
  EXPECT_EQ((*again)->LoadDenoiser()->at("conv_in.weight").dim(1), 8);
  options.lora.rank = 2;
  EXPECT_EQ(LoadStableDiffusion(kTinySd, options).status().message(),
            "self-conditioning needs training of the whole U-Net, not of adapters or a ControlNet");
}

// Saves tiny_sd with self-conditioning but without kFurtherInputKey, and with this class.
std::string WidenedWithoutKey(const std::string& class_name) {
  LoadModelOptions options;
  options.self_conditioning = true;
  const auto requested = LoadStableDiffusion(kTinySd, options);
  EXPECT_TRUE(requested.ok()) << requested.status();
  const std::string folder = ::testing::TempDir() + "/widened";
  EXPECT_TRUE((*requested)->Save(folder, *(*requested)->LoadDenoiser()).ok());
  for (const auto& [file, key, value] :
       std::vector<std::array<std::string, 3>>{{"unet/config.json", "_further_input", ""},
                                               {"model_index.json", "_class_name", class_name}}) {
    auto json = nlohmann::ordered_json::parse(*ReadFile(folder + "/" + file));
    EXPECT_TRUE(json.contains(key)) << file;
    if (value.empty()) {
      json.erase(key);
    } else {
      json[key] = value;
    }
    EXPECT_TRUE(WriteFileAtomically(folder + "/" + file, json.dump()).ok());
  }
  return folder;
}

TEST(SelfConditioningTest, ForeignChannelsAreNotReadAsTheEstimate) {
  const auto ours = LoadStableDiffusion(WidenedWithoutKey(kStableDiffusionClass), {});
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_TRUE(UNetOf(**ours).self_conditioning());
  // When saved again, it has the key.
  const std::string saved = ::testing::TempDir() + "/widened_again";
  ASSERT_TRUE((*ours)->Save(saved, *(*ours)->LoadDenoiser()).ok());
  EXPECT_THAT(*ReadFile(saved + "/unet/config.json"),
              HasSubstr("\"_further_input\": \"estimate\""));

  // A guess is noted; with the key in the folder there is nothing to note.
  ASSERT_EQ((*ours)->notes().size(), 1);
  EXPECT_THAT((*ours)->notes()[0],
              HasSubstr("has 8 input channels for 4 output channels and no '_further_input'; it is "
                        "read as 'estimate'"));
  const auto again = LoadStableDiffusion(saved, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->notes().empty());

  // In another pipeline the channels have another meaning.
  const std::string foreign = WidenedWithoutKey("StableDiffusionInstructPix2PixPipeline");
  LoadModelOptions options;
  for (bool asked : {false, true}) {
    options.self_conditioning = asked;
    EXPECT_EQ(LoadStableDiffusion(foreign, options).status().message(),
              foreign +
                  "/model_index.json: a StableDiffusionInstructPix2PixPipeline is not "
                  "supported; supported are StableDiffusionPipeline, "
                  "StableDiffusionControlNetPipeline");
  }
}

}  // namespace
}  // namespace dpipe::models

// Tests the inputs of a step: random draws, and frozen components' outputs from the offline cache.
#include <cstring>
#include <filesystem>

#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/nn/execution.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/training_setup.h"
#include "models/vae/vae.h"
#include "models/weights/weights.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/sd_scenes";
  BuiltInDatasetOptions options;
  options.count = 24;
  EXPECT_TRUE(EnsureBuiltInDataset(folder, options).ok());
  return folder;
}

TrainingSetupOptions Options(int global_batch) {
  TrainingSetupOptions options;
  options.model_folder = kTinySd;
  options.data.folder = DataFolder();
  options.num_devices = 1;
  options.global_batch = global_batch;
  options.seed = 11;
  return options;
}

TEST(TrainingInputsTest, DependOnSampleAndStepAlone) {
  const auto setup = TrainingSetup::Create(Options(8));
  ASSERT_TRUE(setup.ok()) << setup.status();
  InputProvider& inputs = *(*setup)->job().inputs;
  const auto device = Device::Cpu();
  for (const auto& [component, input] :
       std::vector<std::pair<const char*, const char*>>{{"vae_encoder", "pixels"},
                                                        {"vae_encoder", "vae_noise"},
                                                        {"text_encoder", "ids"},
                                                        {"unet", "noise"},
                                                        {"unet", "timesteps"}}) {
    const auto whole = inputs.Load(component, input, 2, {0, 8}, device);
    const auto part = inputs.Load(component, input, 2, {3, 5}, device);
    const auto other = inputs.Load(component, input, 3, {3, 5}, device);
    ASSERT_TRUE(whole.ok() && part.ok() && other.ok()) << whole.status();
    EXPECT_TRUE(SameBits(whole->Slice(3, 5), *part)) << input;
    EXPECT_FALSE(SameBits(*part, *other)) << input << " is the same in every step";
  }
  EXPECT_EQ(inputs.Load("unet", "latents", 0, {0, 1}, device).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(inputs.Load("unet", "pixies", 0, {0, 1}, device).ok());
}

// Makes tiny_sd with a VAE of random weights. Its last level has 256 channels, so that the choice
// of kernels depends on the number of samples.
std::string WithWideVae() {
  const std::string folder = ::testing::TempDir() + "/wide_vae";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kTinySd, folder, std::filesystem::copy_options::recursive);
  const std::string path = folder + "/vae/config.json";
  const std::string json =
      absl::StrReplaceAll(*ReadFile(path), {{"64,\n    64\n", "64,\n    256\n"}});
  const auto config = ParseVaeConfig(json, path);
  EXPECT_TRUE(config.ok()) << config.status();
  std::filesystem::remove(path);
  EXPECT_TRUE(WriteFileAtomically(path, json).ok());
  NamedTensors weights;
  for (const auto& program : {BuildVaeEncoder(*config, 64, 64), BuildVaeDecoder(*config, 64, 64)}) {
    EXPECT_TRUE(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), Device::Cpu());
    parameters.InitRandom(/*seed=*/5);
    parameters.Collect(&weights);
  }
  const std::string file = folder + "/vae/diffusion_pytorch_model.safetensors";
  std::filesystem::remove(file);
  EXPECT_TRUE(SaveWeights(file, weights).ok());
  return folder;
}

// Expects the cache to return the frozen components' outputs bit for bit.
void ExpectMatchesOnlineComputation(TrainingSetupOptions options) {
  const auto setup = TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  ASSERT_TRUE((*setup)->BuildCache(/*num_steps=*/3).ok());
  ASSERT_EQ((*setup)->job().frozen_quantum, options.global_batch);
  InputProvider& inputs = *(*setup)->job().inputs;
  const auto device = Device::Cpu();
  const SampleRange range{0, options.global_batch};
  for (int component : {kVaeEncoder, kFirstTextEncoder}) {
    ASSERT_TRUE((*setup)->model().LoadAllFrozen().ok());
    const nn::Component& frozen = (*setup)->model().model().component(component);
    const std::string cached_input = component == kVaeEncoder ? "latents" : "context";
    for (int step = 0; step < 3; ++step) {
      nn::ValueMap values;
      for (ValueId id : frozen.program.inputs()) {
        values[id] = *inputs.Load(frozen.name, frozen.program.value(id).name, step, range, device);
      }
      ASSERT_TRUE(nn::Forward(frozen.program, frozen.program.all_layers(),
                              *(*setup)->model().frozen_parameters()[component], nn::RunOptions(),
                              &values, nullptr)
                      .ok());
      const auto cached = inputs.Load("unet", cached_input, step, range, device);
      ASSERT_TRUE(cached.ok()) << cached.status();
      EXPECT_TRUE(SameBits(values[frozen.program.outputs()[0]], *cached))
          << cached_input << " of step " << step;
    }
  }
  EXPECT_EQ(inputs.Load("unet", "latents", 5, range, device).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(FrozenCacheTest, MatchesOnlineComputation) {
  TrainingSetupOptions options = Options(4);
  options.caption_drop = 0.5;
  ExpectMatchesOnlineComputation(options);
}

TEST(FrozenCacheTest, MatchesIfKernelsDependOnTheBatch) {
  TrainingSetupOptions options = Options(4);
  options.model_folder = WithWideVae();
  ExpectMatchesOnlineComputation(options);
}

TEST(FrozenCacheTest, AFolderKeepsResultsBitForBit) {
  TrainingSetupOptions options = Options(4);
  options.caption_drop = 0.5;
  const auto device = Device::Cpu();
  int64_t num_damaged = 0;
  const auto inputs_of = [&](const std::string& cache_folder, int* num_computed) {
    options.cache_folder = cache_folder;
    const auto setup = TrainingSetup::Create(options);
    EXPECT_TRUE(setup.ok()) << setup.status();
    const auto cached = (*setup)->BuildCache(/*num_steps=*/2);
    EXPECT_TRUE(cached.ok()) << cached.status();
    *num_computed = (*cached)->num_computed;
    num_damaged = (*cached)->num_damaged;
    std::vector<Tensor> inputs;
    for (const char* name : {"latents", "context"}) {
      for (int step = 0; step < 2; ++step) {
        inputs.push_back((*setup)->job().inputs->Load("unet", name, step, {0, 4}, device)->Clone());
      }
    }
    return inputs;
  };
  const std::string folder = ::testing::TempDir() + "/frozen_cache";
  std::filesystem::remove_all(folder);
  int in_memory = 0, first = 0, second = 0, changed = 0, again = 0;
  const auto expected = inputs_of("", &in_memory);
  const auto expect_same = [&](const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(SameBits(expected[i], inputs[i])) << i;
  };
  expect_same(inputs_of(folder, &first));
  EXPECT_EQ(first, in_memory);
  expect_same(inputs_of(folder, &second));
  EXPECT_EQ(second, 0);
  // Another dtype uses other entries; the first ones are kept.
  options.compute_dtype = DType::kBf16;
  inputs_of(folder, &changed);
  EXPECT_EQ(changed, in_memory);
  options.compute_dtype = DType::kF32;
  expect_same(inputs_of(folder, &second));
  EXPECT_EQ(second, 0);
  // A picture that is written again has one new entry, even with the same bytes.
  const std::string picture =
      (*TrainingSetup::Create(options))
          ->loader()
          .dataset()
          .image_path((*TrainingSetup::Create(options))->loader().Indices(0, {0, 1})->front());
  ASSERT_TRUE(WriteFileAtomically(picture, *ReadFile(picture)).ok());
  expect_same(inputs_of(folder, &changed));
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(num_damaged, 0);
  // A damaged entry is computed again.
  std::string shard = *ReadFile(folder + "/000000.shard");
  shard[shard.size() - 5] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(folder + "/000000.shard", shard).ok());
  expect_same(inputs_of(folder, &again));
  EXPECT_EQ(again, 1);
  EXPECT_EQ(num_damaged, 1);
}

// Entries depend on a picture's width and height, so a cache folder has separate entries for each
// size.
TEST(FrozenCacheTest, AFolderKeepsEachSize) {
  TrainingSetupOptions options = Options(4);
  options.cache_folder = ::testing::TempDir() + "/frozen_cache_of_sizes";
  std::filesystem::remove_all(options.cache_folder);
  const auto build = [&](int image_size) {
    options.model.image_size = image_size;
    const auto setup = TrainingSetup::Create(options);
    EXPECT_TRUE(setup.ok()) << setup.status();
    const auto cached = (*setup)->BuildCache(/*num_steps=*/1);
    EXPECT_TRUE(cached.ok()) << cached.status();
    const auto latents = (*setup)->job().inputs->Load("unet", "latents", 0, {0, 4}, Device::Cpu());
    EXPECT_TRUE(latents.ok()) << latents.status();
    return std::make_pair((*cached)->num_computed, latents.ok() ? latents->dim(1) : 0);
  };
  const auto [num_first, first_height] = build(64);
  EXPECT_EQ(first_height, 64 / 4);
  const auto [num_second, second_height] = build(32);
  EXPECT_EQ(second_height, 32 / 4);
  EXPECT_EQ(num_second, 4) << "the pictures of a step, but no captions";
  EXPECT_EQ(build(64).first, 0);
  EXPECT_EQ(build(32).first, 0);
}

TEST(FrozenCacheTest, RefusesRandomViews) {
  TrainingSetupOptions options = Options(4);
  options.data.random_flip = true;
  const auto setup = TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ((*setup)->BuildCache(1).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dpipe::models

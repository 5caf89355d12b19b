// Tests latent pipelines with a family that has several text encoders, a pooled embedding, a
// condition and flow matching. Stable Diffusion's tests are in models/stable_diffusion.
#include "models/latent/latent_pipeline.h"

#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/nn/execution.h"
#include "core/nn/model.h"
#include "core/tensor/device_worker.h"
#include "data/folders/folder_dataset.h"
#include "data/loader.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/testing/toy_family.h"
#include "models/latent/trainable.h"

namespace dpipe::models {
namespace {

using ::testing::ElementsAre;

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

std::string ToyFolder() {
  const std::string folder = ::testing::TempDir() + "/toy";
  WriteToyFolder(folder);
  return folder;
}

TrainableLatentModel LoadToy(const std::string& folder) {
  auto parts = ReadToyFamily(folder);
  DPIPE_CHECK(parts.ok()) << parts.status();
  auto pipeline = LatentPipeline::Load(*std::move(parts), {});
  DPIPE_CHECK(pipeline.ok()) << pipeline.status();
  return TrainableLatentModel(*std::move(pipeline));
}

std::unique_ptr<DataLoader> Scenes(int global_batch) {
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions options;
  options.count = 24;
  DPIPE_CHECK(EnsureBuiltInDataset(folder, options).ok());
  DataLoaderOptions loading;
  loading.global_batch = global_batch;
  loading.image_size = 32;
  auto loader = DataLoader::Create(*FolderDataset::Open(folder), loading);
  DPIPE_CHECK(loader.ok()) << loader.status();
  return *std::move(loader);
}

// Runs a component of step 1 on 4 samples. Inputs that other components compute come from `values`,
// by "component.output", to which the outputs are added.
void RunComponent(const TrainableLatentModel& model, int index, const nn::ParameterSet& parameters,
                  InputProvider* inputs, NamedTensors* values) {
  const nn::Component& component = model.model().component(index);
  const nn::Program& program = component.program;
  nn::ValueMap run;
  for (ValueId id : program.inputs()) {
    const std::string& name = program.value(id).name;
    const auto source = component.sources.find(name);
    if (source != component.sources.end()) {
      run[id] = values->at(source->second.component + "." + source->second.output);
      continue;
    }
    const auto loaded = inputs->Load(component.name, name, 1, {0, 4}, Device::Cpu());
    ASSERT_TRUE(loaded.ok()) << component.name << " " << name << ": " << loaded.status();
    EXPECT_EQ(loaded->shape(), program.BatchShape(id, 4)) << name;
    EXPECT_EQ(loaded->dtype(), nn::ResolveElement(program.value(id).type.element, DType::kF32))
        << name;
    run[id] = *loaded;
  }
  const absl::Status status =
      nn::Forward(program, program.all_layers(), parameters, nn::RunOptions(), &run, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  for (ValueId id : program.outputs()) {
    (*values)[component.name + "." + program.value(id).name] = run[id];
  }
}

TEST(LatentPipelineTest, EveryPartIsWiredAndProvided) {
  const TrainableLatentModel model = LoadToy(ToyFolder());
  std::vector<std::string> names;
  for (int c = 0; c < model.model().num_components(); ++c) {
    names.push_back(model.model().component(c).name);
  }
  EXPECT_THAT(names, ElementsAre("vae_encoder", "text_encoder", "text_encoder_2", "transformer"));
  EXPECT_EQ(model.DescribeFrozen(), "vae, text_encoder and text_encoder_2 random");
  EXPECT_EQ(model.tokenizer()->max_length(), 32) << "of the encoder that reads the most";
  EXPECT_FALSE(model.wants_conditions());
  const auto wide = model.MakeModel({64, 32});
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_TRUE(nn::CheckSameStructure(model.model(), *wide).ok());

  const auto loader = Scenes(4);
  const auto inputs = model.MakeInputs(loader.get(), {});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  NamedTensors values;
  ASSERT_TRUE(model.LoadAllFrozen().ok());
  for (int c = 0; c < 3; ++c)
    RunComponent(model, c, *model.frozen_parameters()[c], inputs->get(), &values);
  const nn::Program& backbone = model.model().backbone().program;
  nn::ParameterSet parameters(backbone, backbone.all_layers(), Device::Cpu());
  ASSERT_TRUE(parameters.Load(model.pipeline().RandomDenoiser(3)).ok());
  RunComponent(model, 3, parameters, inputs->get(), &values);

  // A new transformer predicts zeros, so the loss is the mean square of noise - latents.
  const Tensor& latents = values.at("vae_encoder.latents");
  const Tensor noise = *(*inputs)->Load("transformer", "noise", 1, {0, 4}, Device::Cpu());
  const int64_t size = latents.num_elements() / 4;
  for (int b = 0; b < 4; ++b) {
    double sum = 0;
    for (int64_t i = b * size; i < (b + 1) * size; ++i) {
      const double target = noise.data<float>()[i] - latents.data<float>()[i];
      sum += target * target;
    }
    EXPECT_NEAR(values.at("transformer.loss").data<float>()[b], sum / static_cast<double>(size),
                1e-5 * sum / static_cast<double>(size));
  }
}

TEST(LatentPipelineTest, AllOutputsOfAllEncodersAreCached) {
  const TrainableLatentModel model = LoadToy(ToyFolder());
  const auto loader = Scenes(4);
  InputsOptions options;
  options.caption_drop = 0.5;
  const auto inputs = model.MakeInputs(loader.get(), options);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  NamedTensors values;
  ASSERT_TRUE(model.LoadAllFrozen().ok());
  for (int c = 0; c < 3; ++c)
    RunComponent(model, c, *model.frozen_parameters()[c], inputs->get(), &values);
  const auto workers = StartWorkers({Device::Cpu()});
  CacheRequest request;
  request.loader = loader.get();
  request.num_steps = 2;
  request.frozen_quantum = 4;
  const auto cached = model.MakeCachedInputs(request, options, {workers[0].get()}, nullptr);
  ASSERT_TRUE(cached.ok()) << cached.status();
  request.should_stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(
      model.MakeCachedInputs(request, options, {workers[0].get()}, nullptr).status()));
  EXPECT_EQ(cached->make_rest, nullptr) << "the transformer has no frozen component";
  for (const auto& [input, source] : model.model().backbone().sources) {
    const auto loaded = cached->provider->Load("transformer", input, 1, {0, 4}, Device::Cpu());
    ASSERT_TRUE(loaded.ok()) << input << ": " << loaded.status();
    EXPECT_TRUE(SameBits(*loaded, values.at(source.component + "." + source.output))) << input;
  }
}

TEST(LatentPipelineTest, DrawsWithAllConditions) {
  const TrainableLatentModel model = LoadToy(ToyFolder());
  NamedTensors parameters = model.pipeline().RandomDenoiser(3);
  for (float& v : parameters.at("out.weight").span<float>()) v = 0.5f;
  const auto workers = StartWorkers({Device::Cpu()});
  DrawRequest request;
  request.prompts = {"a red circle", "a red circle", "a large blue square"};
  request.options.num_steps = 3;
  const auto draw = [&] {
    const auto images = model.Draw(parameters, request, {workers[0].get()}, nullptr);
    EXPECT_TRUE(images.ok()) << images.status();
    return *images;
  };
  const std::vector<Image> together = draw();
  request.options.batch = 2;
  const std::vector<Image> apart = draw();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(together[i].pixels, apart[i].pixels) << i;
  request.options.guidance = 9;
  EXPECT_NE(draw()[0].pixels, together[0].pixels) << "the guidance scale is a condition";
  request.options.guidance = DrawOptions().guidance;
  // Each encoder's part of the transformer matters.
  for (const char* name : {"first.weight", "second.weight", "pooled.weight", "time.weight"}) {
    const Tensor kept = parameters.at(name);
    parameters.at(name) = Tensor::Zeros(Device::Cpu(), kept.shape(), DType::kF32);
    EXPECT_NE(draw()[0].pixels, together[0].pixels) << name;
    parameters.at(name) = kept;
  }
}

TEST(LatentPipelineTest, SavesAllPartsAndLoadsThem) {
  const TrainableLatentModel model = LoadToy(ToyFolder());
  EXPECT_EQ(model.pipeline().CheckIsTrained().message(),
            model.pipeline().folder() +
                " has no trained transformer (transformer/diffusion_pytorch_model.safetensors); "
                "train one with: bazel run //tools:train");
  const NamedTensors parameters = model.pipeline().RandomDenoiser(3);
  const std::string saved = ::testing::TempDir() + "/saved_toy";
  std::filesystem::remove_all(saved);
  const absl::Status status = model.Save(saved, parameters, StoredFormat::kFp32);
  ASSERT_TRUE(status.ok()) << status;
  const TrainableLatentModel again = LoadToy(saved);
  EXPECT_FALSE(again.pipeline().frozen_is_random());
  EXPECT_EQ(again.DescribeStart(TrainableModel::Start::kFolder, 0),
            "transformer from " + saved + "/transformer");
  const auto loaded = again.InitialParameters(TrainableModel::Start::kFolder, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), parameters.size());
  for (const auto& [name, tensor] : parameters) {
    EXPECT_TRUE(SameBits(tensor, loaded->at(name))) << name;
  }
  ASSERT_TRUE(model.LoadAllFrozen().ok() && again.LoadAllFrozen().ok());
  for (int c = 0; c < 3; ++c) {
    NamedTensors before, after;
    model.frozen_parameters()[c]->Collect(&before);
    again.frozen_parameters()[c]->Collect(&after);
    for (const auto& [name, tensor] : before) {
      EXPECT_TRUE(SameBits(tensor, after.at(name))) << name;
    }
  }
}

}  // namespace
}  // namespace dpipe::models

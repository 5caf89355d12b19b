// Compares SDXL as a whole with diffusers (testdata/make_goldens.py), and tests what other families
// lack: two text encoders, the size and crop of pictures, zeros without text.
#include "models/sdxl/sdxl.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "data/folders/folder_dataset.h"
#include "data/images/image_encode.h"
#include "data/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/image_sampler.h"
#include "models/latent/trainable.h"
#include "models/latent/training_inputs.h"
#include "models/sdxl/testing/sdxl_folder.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/vae/vae.h"
#include "models/weights/weights.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Those of the script.
const std::vector<std::string> kPrompts = {"a large red circle! on white",
                                           "a small blue square left of a green star"};
constexpr int kSteps = 4;
constexpr float kGuidance = 5;

Goldens SdxlGoldens() { return Goldens("models/sdxl/testdata/goldens.safetensors", Device::Cpu()); }

std::string SdxlFolder() {
  const std::string folder = ::testing::TempDir() + "/sdxl";
  WriteSdxlFolder(folder);
  return folder;
}

// Sets a key of a JSON file in the folder.
void SetKey(const std::string& folder, const std::string& file, const std::string& key,
            const nlohmann::json& value) {
  const std::string path = absl::StrCat(folder, "/", file);
  auto json = nlohmann::ordered_json::parse(*ReadFile(path));
  json[key] = value;
  ASSERT_TRUE(WriteFileAtomically(path, json.dump()).ok());
}

std::unique_ptr<TrainableLatentModel> Load(const std::string& folder,
                                           const LoadModelOptions& options = {}) {
  auto model = StableDiffusionXlKind().load(folder, options);
  DPIPE_CHECK(model.ok()) << model.status();
  auto* latent = dynamic_cast<TrainableLatentModel*>(model->release());
  DPIPE_CHECK(latent != nullptr);
  return std::unique_ptr<TrainableLatentModel>(latent);
}

Tensor DrawLatents(const TrainableLatentModel& model) {
  const auto weights = model.pipeline().LoadDenoiser();
  DPIPE_CHECK(weights.ok()) << weights.status();
  const auto sampler = ImageSampler::Create(&model.pipeline(), *weights, DType::kF32);
  DPIPE_CHECK(sampler.ok()) << sampler.status();
  DrawOptions options;
  options.num_steps = kSteps;
  options.guidance = kGuidance;
  const Tensor noise = FormulaInput(Device::Cpu(), "noise", Shape({2, 8, 8, 4}));
  auto latents = (*sampler)->DrawLatents(kPrompts, options, noise, Device::Cpu());
  DPIPE_CHECK(latents.ok()) << latents.status();
  return *latents;
}

Tensor Decode(const LatentPipeline& pipeline, const Tensor& latents) {
  const auto decoder = BuildVaeDecoder(pipeline.parts().vae, 32, 32);
  DPIPE_CHECK(decoder.ok()) << decoder.status();
  nn::ParameterSet parameters(*decoder, decoder->all_layers(), Device::Cpu());
  DPIPE_CHECK(parameters.Load(*pipeline.LoadDecoder(*decoder)).ok());
  nn::ValueMap values = {{decoder->InputNamed("latents"), latents}};
  DPIPE_CHECK(nn::Forward(*decoder, decoder->all_layers(), parameters, {}, &values, nullptr).ok());
  return values[decoder->OutputNamed("pixels")];
}

TEST(SdxlGoldenTest, TokensAreThoseOfTransformers) {
  const auto model = Load(SdxlFolder());
  const Goldens goldens = SdxlGoldens();
  const std::vector<TextEncoder>& encoders = model->pipeline().parts().text_encoders;
  ASSERT_EQ(encoders.size(), 2);
  for (int i = 0; i < 2; ++i) {
    const Tensor expected = goldens.Get(i == 0 ? "ids" : "ids_2");
    for (int row = 0; row < 3; ++row) {
      const std::vector<int32_t> ids = encoders[i].tokenizer->Encode(row < 2 ? kPrompts[row] : "");
      const auto want = expected.Slice(row, row + 1).span<int32_t>();
      EXPECT_EQ(ids, std::vector<int32_t>(want.begin(), want.end())) << i << " " << row;
    }
  }
}

TEST(SdxlGoldenTest, DrawsAsDiffusers) {
  const Goldens goldens = SdxlGoldens();
  const std::string folder = SdxlFolder();
  const auto model = Load(folder);
  const Tensor latents = DrawLatents(*model);
  EXPECT_LT(RelativeError(latents, goldens.Get("epsilon/latents")), 1e-4);
  EXPECT_LT(RelativeError(Decode(model->pipeline(), latents), goldens.Get("epsilon/pixels")), 1e-4);
  // The empty text is encoded, as this index wants, and the prediction is v.
  SetKey(folder, "model_index.json", "force_zeros_for_empty_prompt", false);
  SetKey(folder, "scheduler/scheduler_config.json", "prediction_type", "v_prediction");
  const auto encoding = Load(folder);
  const Tensor others = DrawLatents(*encoding);
  EXPECT_LT(RelativeError(others, goldens.Get("v_prediction/latents")), 1e-4);
  EXPECT_GT(RelativeError(others, latents), 0.1);
}

TEST(SdxlGoldenTest, ATrainingStepIsThatOfTorch) {
  const auto model = Load(SdxlFolder());
  const Goldens goldens = SdxlGoldens();
  const auto cpu = Device::Cpu();
  const nn::Model& whole = model->model();
  // Embeddings by "component.output".
  NamedTensors outputs;
  for (const int c : {kFirstTextEncoder, kFirstTextEncoder + 1}) {
    const nn::Program& program = whole.component(c).program;
    const Tensor ids = goldens.Get(c == kFirstTextEncoder ? "ids" : "ids_2").Slice(0, 2);
    nn::ValueMap values = {{program.InputNamed("ids"), ids}};
    ASSERT_TRUE(nn::Forward(program, program.all_layers(), *model->frozen_parameters()[c], {},
                            &values, nullptr)
                    .ok());
    for (const ValueId id : program.outputs()) {
      outputs[absl::StrCat(whole.component(c).name, ".", program.value(id).name)] = values[id];
    }
  }
  std::map<std::string, Tensor> inputs = {
      {"latents", FormulaInput(cpu, "latents", Shape({2, 8, 8, 4}))},
      {"noise", FormulaInput(cpu, "noise", Shape({2, 8, 8, 4}))},
      {"timesteps", Tensor::FromHost<int32_t>(cpu, {2}, {37, 850})},
      {"time_ids",
       Tensor::FromHost<float>(cpu, {2, 6}, {40, 52, 0, 6, 32, 32, 64, 33, 17, 0, 32, 32})}};
  for (const auto& [input, source] : whole.backbone().sources) {
    if (input == "latents") continue;
    inputs[input] = outputs.at(absl::StrCat(source.component, ".", source.output));
  }
  const FormulaRun run = RunWithFormulaWeights(whole.backbone().program, inputs,
                                               Tensor::FromHost<float>(cpu, {2}, {0.5f, 0.5f}), {});
  EXPECT_LT(RelativeError(run.output, goldens.Get("losses")), 1e-5);
  const GradientErrors errors = CompareGradients(run.gradients, goldens);
  EXPECT_LT(errors.worst, 1e-4) << errors.worst_name;
}

// Reads samples through TrainingInputs; pixels identify their columns and rows.
TEST(SdxlTest, TimeIdsAreOfTheRealCrop) {
  const std::string folder = ::testing::TempDir() + "/pictures";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(MakeFolder(folder).ok());
  Image image(60, 40);
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 60; ++x) {
      image.At(x, y)[0] = static_cast<uint8_t>(x);
      image.At(x, y)[1] = static_cast<uint8_t>(y);
    }
  }
  ASSERT_TRUE(WriteFileAtomically(folder + "/wide.png", *EncodePng(image)).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/wide.txt", "wide").ok());
  const auto model = Load(SdxlFolder());
  DataLoaderOptions options;
  options.global_batch = 4;
  options.image_size = 32;
  options.random_crop = true;
  auto loader = DataLoader::Create(*FolderDataset::Open(folder), options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const auto inputs = model->MakeInputs(loader->get(), {});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  const auto ids = (*inputs)->Load("unet", "time_ids", 3, {0, 4}, Device::Cpu());
  const auto pixels = (*inputs)->Load("vae_encoder", "pixels", 3, {0, 4}, Device::Cpu());
  ASSERT_TRUE(ids.ok() && pixels.ok()) << ids.status() << pixels.status();
  for (int i = 0; i < 4; ++i) {
    const float* id = ids->data<float>() + 6 * i;
    // 60 x 40 becomes 48 x 32.
    EXPECT_THAT(std::vector<float>(id, id + 6), ElementsAre(40, 60, 0, id[3], 32, 32));
    const double column = (pixels->data<float>()[i * 32 * 32 * 3] + 1) * 127.5;
    EXPECT_NEAR(column, (id[3] + 0.5) * 60 / 48 - 0.5, 1) << "in the original picture";
  }
  DrawnPictures drawn;
  drawn.count = 2;
  drawn.size = {48, 32};
  const auto given = TimeIdsCondition().ForDrawing(drawn, Device::Cpu());
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT(given->Slice(1, 2).span<float>(), ElementsAre(32, 48, 0, 0, 32, 48));
}

// Trained adapters are written with kohya's names, and read back.
TEST(SdxlTest, TrainedAdaptersAreSavedWithKohyasNames) {
  const std::string folder = SdxlFolder();
  LoadModelOptions options;
  options.lora = {2, 0.5f};
  options.lora_format = LoraFormat::kKohya;
  const auto model = Load(folder, options);
  auto weights = model->InitialParameters(TrainableModel::Start::kFolder, 1);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string up = "down_blocks.1.attentions.0.transformer_blocks.1.attn1.to_q.lora_B.weight";
  for (float& x : weights->at(up).span<float>()) x = 0.25f;
  const std::string saved = ::testing::TempDir() + "/sdxl_kohya";
  ASSERT_TRUE(model->Save(saved, *weights, StoredFormat::kFp32).ok());
  const auto file = SafetensorsFile::Open(absl::StrCat(saved, "/", kLoraFile));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE(file->Find("lora_unet_input_blocks_4_1_transformer_blocks_1_attn1_to_q.lora_up.weight"),
            nullptr);
  const auto again = Load(saved, options)->InitialParameters(TrainableModel::Start::kFolder, 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->at(up).data<float>()[0], 0.25f);
}

// Each encoder has adapters of its own. A saved folder has them merged.
TEST(SdxlTest, AdaptersOfBothTextEncodersAreMerged) {
  const std::string layer = "text_model.encoder.layers.0.self_attn.q_proj";
  const std::string folder = SdxlFolder();
  const auto matrix = [](const Shape& shape, float value) {
    Tensor tensor = Tensor::Zeros(Device::Cpu(), shape, DType::kF32);
    for (float& x : tensor.span<float>()) x = value;
    return tensor;
  };
  NamedTensors adapters;
  adapters["text_encoder." + layer + ".lora_A.weight"] = matrix({2, 24}, 0.5f);
  adapters["text_encoder." + layer + ".lora_B.weight"] = matrix({24, 2}, 0.25f);
  adapters["lora_te2_text_model_encoder_layers_0_self_attn_q_proj.lora_down.weight"] =
      matrix({2, 16}, 0.5f);
  adapters["lora_te2_text_model_encoder_layers_0_self_attn_q_proj.lora_up.weight"] =
      matrix({16, 2}, 1);
  LoadModelOptions options;
  options.adapters_file = ::testing::TempDir() + "/two_encoders.safetensors";
  ASSERT_TRUE(SaveWeights(options.adapters_file, adapters).ok());
  const auto plain = Load(folder), adapted = Load(folder, options);
  EXPECT_THAT(adapted->DescribeFrozen(), HasSubstr("with merged adapters"));
  const std::string saved = ::testing::TempDir() + "/sdxl_merged";
  ASSERT_TRUE(adapted
                  ->Save(saved, *adapted->InitialParameters(TrainableModel::Start::kFolder, 1),
                         StoredFormat::kFp32)
                  .ok());
  const auto again = Load(saved);
  const float added[] = {0.25f, 1.0f};  // rank times the product of both values
  for (int i = 0; i < 2; ++i) {
    const auto weights = [&](const TrainableLatentModel& model) {
      return SharedMasters(*model.frozen_parameters()[kFirstTextEncoder + i]);
    };
    for (const auto& [name, before] : weights(*plain)) {
      const float expected = name == layer + ".weight" ? added[i] : 0.0f;
      const Tensor after = weights(*adapted).at(name), reloaded = weights(*again).at(name);
      for (int64_t j = 0; j < before.num_elements(); ++j) {
        ASSERT_NEAR(after.data<float>()[j], before.data<float>()[j] + expected, 1e-6) << name;
        ASSERT_EQ(reloaded.data<float>()[j], after.data<float>()[j]) << name;
      }
    }
  }
}

TEST(SdxlTest, ASavedFolderLoadsTheSame) {
  const auto model = Load(SdxlFolder());
  const auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 3);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  const std::string saved = ::testing::TempDir() + "/sdxl_saved";
  ASSERT_TRUE(model->Save(saved, *parameters, StoredFormat::kFp32).ok());
  const auto again = Load(saved);
  const auto loaded = again->pipeline().LoadDenoiser();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [name, tensor] : *parameters) {
    EXPECT_EQ(std::memcmp(tensor.raw_data(), loaded->at(name).raw_data(), tensor.size_bytes()), 0);
  }
  // The layer of the first encoder that is not read is copied.
  EXPECT_EQ(*ReadFile(saved + "/text_encoder/model.safetensors"),
            *ReadFile(model->pipeline().folder() + "/text_encoder/model.safetensors"));
}

TEST(SdxlTest, FoldersThatDoNotFitAreNamed) {
  const auto error = [](const std::string& folder) {
    return std::string(ReadStableDiffusionXl(folder, {}).status().message());
  };
  std::string folder = SdxlFolder();
  SetKey(folder, "model_index.json", "text_encoder", {nullptr, nullptr});
  EXPECT_THAT(error(folder), HasSubstr("names no text_encoder; the refiner is not supported"));
  folder = SdxlFolder();
  SetKey(folder, "unet/config.json", "projection_class_embeddings_input_dim", 69);
  EXPECT_THAT(error(folder), HasSubstr("'projection_dim' is 20, but the U-Net reads 21 numbers"));
  SetKey(folder, "unet/config.json", "projection_class_embeddings_input_dim", 48);
  EXPECT_THAT(error(folder), HasSubstr("expected more than 48"));
  SetKey(folder, "unet/config.json", "addition_embed_type", nullptr);
  EXPECT_THAT(error(folder), HasSubstr("'addition_embed_type' is null"));
  folder = SdxlFolder();
  SetKey(folder, "text_encoder_2/config.json", "architectures", {"CLIPTextModel"});
  EXPECT_THAT(error(folder), HasSubstr("no CLIPTextModelWithProjection"));
  folder = SdxlFolder();
  SetKey(folder, "tokenizer_2/tokenizer_config.json", "model_max_length", 30);
  EXPECT_THAT(error(folder), HasSubstr("model_max_length are 32 and 30"));
  folder = SdxlFolder();
  SetKey(folder, "unet/config.json", "cross_attention_dim", 64);
  EXPECT_THAT(error(folder), HasSubstr("24 and 16, together 40, but the U-Net's"));
}

}  // namespace
}  // namespace dpipe::models

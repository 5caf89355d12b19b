#include "models/latent/testing/family_check.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/nn/execution.h"
#include "models/latent/testing/draw_from_noise.h"

namespace dpipe::models {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void WriteSmallFolder(const std::string& testdata, const std::string& folder) {
  fs::remove_all(folder);
  fs::copy(testdata, folder, fs::copy_options::recursive);
  const Json index = Json::parse(*ReadFile(folder + "/model_index.json"));
  for (const auto& [name, value] : index.items()) {
    if (!absl::StartsWith(name, "tokenizer") || value[1].is_null()) continue;
    const std::string own = absl::StrCat(folder, "/", name);
    if (value[1] == "CLIPTokenizer") {
      fs::copy("data/tiny_sd/tokenizer", own);
      continue;
    }
    fs::create_directory(own);
    fs::copy("models/tokenizer/testdata/t5/spiece.model", own + "/spiece.model");
    const Json config = {{"tokenizer_class", "T5Tokenizer"},
                         {"extra_ids", 100},
                         {"model_max_length", kSmallT5Tokens}};
    const absl::Status status = WriteFileAtomically(own + "/tokenizer_config.json", config.dump());
    DPIPE_CHECK(status.ok()) << status;
  }
}

void EditJson(const std::string& path, const Json& changes) {
  Json json = Json::parse(*ReadFile(path));
  for (const auto& [key, value] : changes.items()) {
    json[key] = value;
    if (value.is_null()) json.erase(key);
  }
  fs::remove(path);
  const absl::Status status = WriteFileAtomically(path, json.dump());
  DPIPE_CHECK(status.ok()) << status;
}

NamedTensors DenoiserOf(const LatentPipeline& pipeline) {
  auto weights = pipeline.LoadDenoiser();
  DPIPE_CHECK(weights.ok()) << weights.status();
  return *std::move(weights);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

void SetAdapters(NamedTensors* parameters) {
  int i = 0;
  for (auto& [name, tensor] : *parameters) {
    if (!absl::EndsWith(name, nn::kLoraUp)) continue;
    tensor = tensor.Clone();
    for (float& x : tensor.span<float>()) x = 0.01f * static_cast<float>(++i % 17 - 8);
  }
}

StepErrors CompareStep(const LatentPipeline& pipeline, const std::vector<std::string>& texts,
                       const Tensor& latents, const Goldens& goldens) {
  auto inputs = EmbedTexts(pipeline, texts);
  DPIPE_CHECK(inputs.ok()) << inputs.status();
  inputs->insert({{"latents", latents},
                  {"noise", goldens.Get("train/noise")},
                  {"timesteps", goldens.Get("train/timesteps")}});
  const int count = static_cast<int>(texts.size());
  for (const auto& condition : pipeline.denoiser().conditions()) {
    (*inputs)[condition->name()] =
        *condition->ForTraining(/*loader=*/nullptr, /*step=*/0, {0, count}, Device::Cpu());
  }
  const nn::Program& program = pipeline.model().backbone().program;
  nn::ParameterSet parameters(program, program.all_layers(), Device::Cpu());
  DPIPE_CHECK(parameters.Load(DenoiserOf(pipeline)).ok());
  nn::ValueMap values, grads;
  for (const auto& [name, tensor] : *inputs) values[program.InputNamed(name)] = tensor;
  nn::RangeState state;
  DPIPE_CHECK(nn::Forward(program, program.all_layers(), parameters, {}, &values, &state).ok());
  StepErrors errors;
  const ValueId loss = program.OutputNamed("loss");
  errors.losses = RelativeError(values[loss], goldens.Get("train/losses"));
  const std::vector<float> of_mean(count, 1.0f / static_cast<float>(count));
  grads[loss] = Tensor::FromHost<float>(Device::Cpu(), {count}, of_mean);
  parameters.AllocateGrads(program.all_layers());
  DPIPE_CHECK(nn::Backward(program, program.all_layers(), &parameters, &state, &grads).ok());
  const auto expected = [&](nn::ParameterId id) {
    return goldens.Get("train/gradient/" + program.parameter(id).name);
  };
  double largest = 0;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    largest = std::max(largest, Norm(expected(id)));
  }
  for (nn::ParameterId id : parameters.trainable_ids()) {
    ++errors.num_trained;
    if (Norm(expected(id)) < 1e-6 * largest) continue;
    const double error = RelativeError(*parameters.grad(id), expected(id));
    if (error < errors.gradient) continue;
    errors.gradient = error;
    errors.parameter = program.parameter(id).name;
  }
  return errors;
}

}  // namespace dpipe::models

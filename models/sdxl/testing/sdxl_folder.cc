#include "models/sdxl/testing/sdxl_folder.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "models/clip_text/clip_text.h"
#include "models/folder/pipeline_folder.h"
#include "models/testdata/formula_weights.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"
#include "models/weights/weights.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

// Writes a component whose parameters are those of `programs`.
void WriteWeights(const std::string& path, std::vector<absl::StatusOr<nn::Program>> programs) {
  NamedTensors weights;
  for (const absl::StatusOr<nn::Program>& program : programs) {
    DPIPE_CHECK(program.ok()) << program.status();
    nn::ParameterSet parameters(*program, program->all_layers(), Device::Cpu());
    SetFormulaWeights(&parameters);
    weights.merge(SharedMasters(parameters));
  }
  const absl::Status status = SaveWeights(path, weights);
  DPIPE_CHECK(status.ok()) << status;
}

void WriteTextEncoder(const std::string& folder, const std::string& name) {
  const auto config = ReadClipTextConfig(absl::StrCat(folder, "/", name, "/config.json"));
  DPIPE_CHECK(config.ok()) << config.status();
  std::vector<absl::StatusOr<nn::Program>> programs;
  programs.push_back(BuildClipText(*config, config->max_positions, nn::LayerKind::kFrozen,
                                   {ClipStates::kLast, config->with_projection}));
  WriteWeights(absl::StrCat(folder, "/", name, "/", kTransformersWeights), std::move(programs));
}

}  // namespace

void WriteSdxlFolder(const std::string& folder) {
  fs::remove_all(folder);
  fs::copy("models/sdxl/testdata/pipeline", folder, fs::copy_options::recursive);
  for (const char* tokenizer : {"tokenizer", "tokenizer_2"}) {
    for (const char* file : {"merges.txt", "vocab.json"}) {
      fs::copy(absl::StrCat("data/tiny_sd/tokenizer/", file),
               absl::StrCat(folder, "/", tokenizer, "/", file));
    }
  }
  const auto unet = ReadUNetConfig(folder + "/unet/config.json");
  const auto vae = ReadVaeConfig(folder + "/vae/config.json");
  DPIPE_CHECK(unet.ok() && vae.ok()) << unet.status() << vae.status();
  std::vector<absl::StatusOr<nn::Program>> unet_programs, vae_programs;
  unet_programs.push_back(BuildUNetForInference(*unet, {8, 8, 32}));
  vae_programs.push_back(BuildVaeEncoder(*vae, 32, 32));
  vae_programs.push_back(BuildVaeDecoder(*vae, 32, 32));
  WriteWeights(absl::StrCat(folder, "/unet/", kDiffusersWeights), std::move(unet_programs));
  WriteWeights(absl::StrCat(folder, "/vae/", kDiffusersWeights), std::move(vae_programs));
  WriteTextEncoder(folder, "text_encoder");
  WriteTextEncoder(folder, "text_encoder_2");
}

}  // namespace dpipe::models

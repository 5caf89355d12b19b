#include "models/controlnet/trainable.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/nn/parameters.h"
#include "models/controlnet/controlnet.h"
#include "models/folder/model_index.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/weights/weights.h"

namespace dpipe::models {
namespace {

constexpr char kSubfolder[] = "controlnet";

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Returns the folder's model_index.json, changed to that of a pipeline with a ControlNet.
absl::StatusOr<std::string> PipelineIndex(const std::string& folder) {
  const std::string path = folder + "/model_index.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(auto index, ParseJsonObject<nlohmann::ordered_json>(text, path));
  index["_class_name"] = kControlNetPipelineClass;
  index["controlnet"] = {"diffusers", "ControlNetModel"};
  return JsonText(index, /*indent=*/2) + "\n";
}

// Returns the U-Net with the folder's ControlNet or a new one.
absl::StatusOr<std::shared_ptr<const Denoiser>> ReadDenoiser(const PipelineFolder& folder,
                                                             const UNetSetup& unet) {
  std::string path = folder.ConfigOf(kSubfolder);
  std::string json;
  if (Exists(path)) {
    DPIPE_ASSIGN_OR_RETURN(json, ReadFile(path));
  } else {
    path = folder.ConfigOf("unet");
    DPIPE_ASSIGN_OR_RETURN(const std::string unet_json, ReadFile(path));
    DPIPE_ASSIGN_OR_RETURN(
        json, ControlNetConfigOf(unet_json, path, DefaultHintChannels(unet.downscale)));
  }
  DPIPE_ASSIGN_OR_RETURN(const ControlNetConfig config, ParseControlNetConfig(json, path));
  if (config.hint_downscale() != unet.downscale) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the hint network downscales by ",
                                                   config.hint_downscale(), ", but the VAE by ",
                                                   unet.downscale));
  }
  return std::make_shared<ControlNetDenoiser>(unet, config, json);
}

}  // namespace

absl::StatusOr<LatentParts> ReadControlNet(const std::string& folder,
                                           const LoadModelOptions& options) {
  LoadModelOptions unchanged = options;  // the U-Net is locked
  unchanged.lora = {};
  unchanged.self_conditioning = unchanged.coordinates = false;
  DPIPE_ASSIGN_OR_RETURN(LatentParts parts, ReadStableDiffusion(folder, unchanged));
  const auto& unet = dynamic_cast<const UNetDenoiser&>(*parts.denoiser);
  DPIPE_ASSIGN_OR_RETURN(parts.denoiser, ReadDenoiser(parts.folder, unet.setup()));
  return parts;
}

absl::StatusOr<std::unique_ptr<TrainableControlNet>> TrainableControlNet::Load(
    const std::string& folder, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(LatentParts parts, ReadControlNet(folder, options));
  DPIPE_ASSIGN_OR_RETURN(auto pipeline, LatentPipeline::Load(std::move(parts), options));
  return std::make_unique<TrainableControlNet>(std::move(pipeline));
}

const ControlNetDenoiser& TrainableControlNet::denoiser() const {
  return dynamic_cast<const ControlNetDenoiser&>(pipeline().denoiser());
}

std::string TrainableControlNet::own_folder() const {
  return pipeline().parts().folder.PathOf(kSubfolder);
}

std::string TrainableControlNet::Describe() const {
  int64_t trainable = 0, locked = 0;
  for (int i = 0; i < backbone().num_parameters(); ++i) {
    const nn::ParameterInfo& info = backbone().parameter(nn::ParameterId(i));
    const bool is_trainable = backbone().layer(info.layer).kind == nn::LayerKind::kTrainable;
    (is_trainable ? trainable : locked) += info.shape.num_elements();
  }
  return absl::StrCat(
      model().name(), " with ControlNet, ",
      absl::StrFormat("%.2f M trainable parameters and %.2f M of a locked decoder in %d layers, "
                      "%d x %d pixels",
                      trainable / 1e6, locked / 1e6, backbone().num_layers(), image_size(),
                      image_size()));
}

std::vector<std::string> TrainableControlNet::notes(Start start) const {
  std::vector<std::string> notes = pipeline().notes();
  if (start == Start::kRandom) return notes;
  for (const std::string& note : WrapperNotes({own_folder()})) notes.push_back(note);
  return notes;
}

absl::StatusOr<nn::ParameterSourcePtr> TrainableControlNet::InitialSource(Start start,
                                                                          uint64_t seed) const {
  DPIPE_ASSIGN_OR_RETURN(const nn::ParameterSourcePtr unet, pipeline().OpenLockedDenoiser());
  nn::ParameterSourcePtr own = nn::RandomSource(seed);
  if (start == Start::kFolder) {
    DPIPE_ASSIGN_OR_RETURN(const nn::Program alone,
                           denoiser().BuildAlone(pipeline().latent_size()));
    DPIPE_ASSIGN_OR_RETURN(own, WeightReader::Open(own_folder(), {&alone}));
  }
  const bool copies = start == Start::kRandom;
  return nn::SourceOf([this, unet, own, copies](const nn::ParameterInfo& parameter) {
    nn::ParameterInfo locked = parameter;
    absl::string_view name = parameter.name;
    if (absl::ConsumePrefix(&name, kDecoderPrefix)) {
      locked.name = std::string(name);
      return unet->Read(locked);
    }
    const std::string& layer = backbone().layer(parameter.layer).name;
    const bool is_new = absl::StartsWith(layer, "controlnet_");
    return copies && !is_new ? unet->Read(locked) : own->Read(parameter);
  });
}

bool TrainableControlNet::has_weights() const { return HasWeights(own_folder()); }

std::string TrainableControlNet::DescribeStart(Start start, uint64_t seed) const {
  if (start == Start::kFolder) return absl::StrCat("controlnet from ", own_folder());
  return absl::StrCat(
      "new controlnet, the unet's encoder copied and other layers initialised (seed ", seed, ")");
}

std::string TrainableControlNet::DescribeFrozen() const {
  return absl::StrCat("unet, ", pipeline().DescribeFrozen());
}

absl::Status TrainableControlNet::Save(const std::string& folder,
                                       const nn::ParameterSource& parameters,
                                       StoredFormat format) const {
  DPIPE_RETURN_IF_ERROR(pipeline().SaveWithLockedDenoiser(folder, {kSubfolder}, format));
  DPIPE_ASSIGN_OR_RETURN(const std::string index, PipelineIndex(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/model_index.json", index));
  std::vector<nn::ParameterInfo> own;
  for (int i = 0; i < backbone().num_parameters(); ++i) {
    const nn::ParameterInfo& parameter = backbone().parameter(nn::ParameterId(i));
    if (!absl::StartsWith(parameter.name, kDecoderPrefix)) own.push_back(parameter);
  }
  const std::string subfolder = absl::StrCat(folder, "/", kSubfolder);
  DPIPE_RETURN_IF_ERROR(MakeFolder(subfolder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(subfolder + "/config.json", denoiser().control_json()));
  return SaveWeightsFrom(parameters, own, subfolder, kDiffusersWeights, format);
}

absl::StatusOr<NamedTensors> TrainableControlNet::DrawingParameters(
    const NamedTensors& parameters) const {
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors unet, pipeline().LoadLockedDenoiser());
  NamedTensors all = parameters;
  for (const auto& [name, tensor] : unet) all.emplace(kDecoderPrefix + name, tensor);
  return all;
}

ModelKind ControlNetKind() {
  ModelKind kind;
  kind.name = "controlnet";
  kind.classes = {kControlNetPipelineClass, kStableDiffusionClass};
  kind.wants_conditions = true;
  kind.is_latent = true;
  kind.load =
      [](const std::string& folder,
         const LoadModelOptions& options) -> absl::StatusOr<std::unique_ptr<TrainableModel>> {
    return TrainableControlNet::Load(folder, options);
  };
  return kind;
}

}  // namespace dpipe::models

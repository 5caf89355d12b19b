#include "models/controlnet/trainable.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/nn/parameters.h"
#include "models/controlnet/controlnet.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/folder/model_index.h"
#include "models/latent/cached_inputs.h"
#include "models/latent/image_sampler.h"
#include "models/latent/training_inputs.h"
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

using Sources = std::map<std::string, nn::InputSource>;

Sources EncoderSources() {
  return {{"latents", {"vae_encoder", "latents"}},
          {"context", {"text_encoder", "last_hidden_state"}}};
}

// The backbone's inputs have the names of the locked encoder's outputs.
Sources LockedSources(const nn::Program& locked_encoder) {
  Sources sources;
  for (ValueId id : locked_encoder.outputs()) {
    const std::string& name = locked_encoder.value(id).name;
    sources[name] = {"locked_encoder", name};
  }
  return sources;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableControlNet>> TrainableControlNet::Load(
    const std::string& folder, StableDiffusionOptions options) {
  auto model = std::unique_ptr<TrainableControlNet>(new TrainableControlNet());
  model->min_snr_gamma_ = options.min_snr_gamma;
  options.make_backbone = [&model](const StableDiffusion& base) {
    return model->MakeBackbone(base);
  };
  DPIPE_ASSIGN_OR_RETURN(model->base_, StableDiffusion::Load(folder, options));
  return model;
}

absl::Status TrainableControlNet::ReadConfig(const StableDiffusion& base) {
  const std::string unet_path = base.folder() + "/unet/config.json";
  std::string path = absl::StrCat(base.folder(), "/", kSubfolder, "/config.json");
  const int64_t downscale = base.vae_config().downscale();
  if (Exists(path)) {
    DPIPE_ASSIGN_OR_RETURN(config_json_, ReadFile(path));
  } else {
    DPIPE_ASSIGN_OR_RETURN(const std::string unet_json, ReadFile(unet_path));
    DPIPE_ASSIGN_OR_RETURN(
        config_json_, ControlNetConfigOf(unet_json, unet_path, DefaultHintChannels(downscale)));
    path = unet_path;
  }
  DPIPE_ASSIGN_OR_RETURN(config_, ParseControlNetConfig(config_json_, path));
  if (config_.hint_downscale() == downscale) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": the hint network downscales by ",
                                                 config_.hint_downscale(), ", but the VAE by ",
                                                 downscale));
}

absl::StatusOr<std::vector<nn::Component>> TrainableControlNet::MakeComponents(
    const StableDiffusion& base, ImageSize size, bool with_encoders) const {
  const UNetShape shape = base.unet_shape(size);
  DPIPE_ASSIGN_OR_RETURN(nn::Program locked,
                         BuildLockedEncoder(base.unet_config(), shape, base.schedule()));
  DPIPE_ASSIGN_OR_RETURN(nn::Program backbone,
                         BuildControlNetForTraining(config_, base.unet_config(), shape,
                                                    {base.schedule(), min_snr_gamma_}));
  const Sources encoders = with_encoders ? EncoderSources() : Sources();
  Sources sources = LockedSources(locked);
  sources.insert(encoders.begin(), encoders.end());
  std::vector<nn::Component> components;
  components.push_back({"locked_encoder", false, std::move(locked), encoders});
  components.push_back({"controlnet", true, std::move(backbone), sources});
  return components;
}

absl::StatusOr<BackboneParts> TrainableControlNet::MakeBackbone(const StableDiffusion& base) {
  DPIPE_RETURN_IF_ERROR(ReadConfig(base));
  BackboneParts parts;
  const ImageSize size{base.image_size(), base.image_size()};
  DPIPE_ASSIGN_OR_RETURN(parts.components, MakeComponents(base, size, /*with_encoders=*/true));
  parts.frozen = {{"unet", {"up_blocks.", "conv_norm_out.", "conv_out."}}};
  parts.subfolder = kSubfolder;
  return parts;
}

absl::StatusOr<nn::Model> TrainableControlNet::MakeModel(ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> encoders, base_->MakeEncoders(size));
  return MakeModelWith(std::move(encoders), size);
}

absl::StatusOr<nn::Model> TrainableControlNet::MakeModelWith(std::vector<nn::Component> encoders,
                                                             ImageSize size) const {
  DPIPE_ASSIGN_OR_RETURN(std::vector<nn::Component> own,
                         MakeComponents(*base_, size, /*with_encoders=*/!encoders.empty()));
  std::vector<nn::Component> components = std::move(encoders);
  for (nn::Component& component : own) components.push_back(std::move(component));
  std::string name = model().name();
  const bool is_own_size = size.width == image_size() && size.height == image_size();
  if (!is_own_size) absl::StrAppend(&name, " at ", size.width, " x ", size.height);
  return nn::Model::Create(std::move(name), std::move(components));
}

absl::StatusOr<nn::Program> TrainableControlNet::BuildAlone() const {
  return BuildControlNetAlone(config_, base_->unet_shape());
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
  std::vector<std::string> notes = base_->notes();
  if (start == Start::kRandom) return notes;
  for (const std::string& note : WrapperNotes({absl::StrCat(base_->folder(), "/", kSubfolder)})) {
    notes.push_back(note);
  }
  return notes;
}

absl::StatusOr<NamedTensors> TrainableControlNet::NewControlNet(const NamedTensors& unet,
                                                                uint64_t seed) const {
  NamedTensors tensors;
  for (int l = 0; l < backbone().num_layers(); ++l) {
    if (backbone().layer(l).kind != nn::LayerKind::kTrainable) continue;
    // Goes layer by layer, because most parameters are the U-Net's and large.
    const auto fresh = nn::ParameterSet::OnDemand(backbone(), {l, l + 1}, Device::Cpu());
    const bool is_own = absl::StartsWith(backbone().layer(l).name, "controlnet_");
    if (is_own) {
      fresh->AllocateMasters({l, l + 1});
      fresh->InitRandom(seed);
    }
    for (nn::ParameterId id : fresh->ids()) {
      const std::string& name = backbone().parameter(id).name;
      tensors[name] = is_own ? fresh->weight(id).master() : unet.at(name);
    }
  }
  return tensors;
}

absl::StatusOr<NamedTensors> TrainableControlNet::InitialParameters(Start start,
                                                                    uint64_t seed) const {
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors unet, base_->LoadLockedUNet());
  NamedTensors parameters;
  if (start == Start::kRandom) {
    DPIPE_ASSIGN_OR_RETURN(parameters, NewControlNet(unet, seed));
  } else {
    DPIPE_ASSIGN_OR_RETURN(const nn::Program alone, BuildAlone());
    DPIPE_ASSIGN_OR_RETURN(parameters, LoadWeights(absl::StrCat(base_->folder(), "/", kSubfolder),
                                                   {&alone}, Device::Cpu()));
  }
  for (int i = 0; i < backbone().num_parameters(); ++i) {
    const std::string& name = backbone().parameter(nn::ParameterId(i)).name;
    absl::string_view own = name;
    if (absl::ConsumePrefix(&own, kDecoderPrefix)) parameters[name] = unet.at(std::string(own));
  }
  return parameters;
}

bool TrainableControlNet::has_weights() const {
  return HasWeights(absl::StrCat(base_->folder(), "/", kSubfolder));
}

std::string TrainableControlNet::DescribeStart(Start start, uint64_t seed) const {
  if (start == Start::kFolder) {
    return absl::StrCat("controlnet from ", base_->folder(), "/", kSubfolder);
  }
  return absl::StrCat(
      "new controlnet, the unet's encoder copied and other layers initialised (seed ", seed, ")");
}

std::string TrainableControlNet::DescribeFrozen() const {
  return absl::StrCat("unet, ", base_->DescribeFrozen());
}

absl::StatusOr<std::unique_ptr<InputProvider>> TrainableControlNet::MakeInputs(
    DataLoader* loader, const InputsOptions& options) const {
  return std::make_unique<TrainingInputs>(base_.get(), loader, options);
}

absl::StatusOr<CachedInputs> TrainableControlNet::MakeCachedInputs(
    const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_ASSIGN_OR_RETURN(
      CachedInputs inputs,
      MakeCachedTrainingInputs(base_.get(), request, options, workers, on_progress));
  inputs.make_rest = [this](ImageSize size) { return MakeModelWith(/*encoders=*/{}, size); };
  for (int c = kTextEncoder + 1; c < model().num_components(); ++c) {
    inputs.rest_parameters.push_back(frozen_parameters()[c]);
  }
  return inputs;
}

absl::Status TrainableControlNet::Save(const std::string& folder, const NamedTensors& parameters,
                                       StoredFormat format) const {
  DPIPE_RETURN_IF_ERROR(base_->SaveWithLockedUNet(folder, format));
  DPIPE_ASSIGN_OR_RETURN(const std::string index, PipelineIndex(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/model_index.json", index));
  NamedTensors own;
  for (const auto& [name, tensor] : parameters) {
    if (!absl::StartsWith(name, kDecoderPrefix)) own[name] = tensor;
  }
  const std::string subfolder = absl::StrCat(folder, "/", kSubfolder);
  DPIPE_RETURN_IF_ERROR(MakeFolder(subfolder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(subfolder + "/config.json", config_json_));
  return SaveWeights(absl::StrCat(subfolder, "/", kDiffusersWeights), own, format);
}

absl::Status TrainableControlNet::CheckDraw(const std::vector<std::string>& prompts,
                                            const DrawOptions& options) const {
  return CheckDrawOptions(options, base_->schedule());
}

std::string TrainableControlNet::SamplerNote(const DrawOptions& options) const {
  return diffusion::ChooseSampler(base_->schedule().options(), options.kind).note;
}

absl::StatusOr<std::vector<Image>> TrainableControlNet::Draw(
    const NamedTensors& parameters, const DrawRequest& request,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_ASSIGN_OR_RETURN(
      nn::Program program,
      BuildControlNetForInference(config_, base_->unet_config(), base_->unet_shape()));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors unet, base_->LoadLockedUNet());
  NamedTensors all = parameters;
  for (const auto& [name, tensor] : unet) all.emplace(kDecoderPrefix + name, tensor);
  DPIPE_ASSIGN_OR_RETURN(const auto sampler, ImageSampler::Create(base_.get(), std::move(program),
                                                                  all, request.compute_dtype));
  return sampler->DrawWithConditions(request.prompts, request.conditions, request.options, workers,
                                     on_progress);
}

ModelKind ControlNetKind() {
  ModelKind kind;
  kind.name = "controlnet";
  kind.classes = {kControlNetPipelineClass, kStableDiffusionClass};
  kind.wants_conditions = true;
  kind.load =
      [](const std::string& folder,
         const LoadModelOptions& options) -> absl::StatusOr<std::unique_ptr<TrainableModel>> {
    StableDiffusionOptions own;
    own.image_size = options.image_size;
    own.min_snr_gamma = options.min_snr_gamma;
    own.prediction_type = options.prediction_type;
    own.zero_terminal_snr = options.zero_terminal_snr;
    return TrainableControlNet::Load(folder, own);
  };
  return kind;
}

}  // namespace dpipe::models

#include "models/unet/unet_denoiser.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/text/json.h"
#include "models/lora/lora_names.h"
#include "models/unet/original_names.h"
#include "models/unet/unet.h"
#include "models/weights/more_channels.h"

namespace dpipe::models {

absl::Status WidenUNet(const LoadModelOptions& options, const std::string& folder,
                       UNetSetup* setup) {
  if (!options.self_conditioning && !options.coordinates) return absl::OkStatus();
  const char* what = options.self_conditioning ? "self-conditioning" : "training on patches";
  if (options.lora.rank > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " needs training of the whole U-Net, not of adapters or a ControlNet"));
  }
  if (options.self_conditioning && options.coordinates) {
    return absl::InvalidArgumentError(
        "self-conditioning and training on patches cannot be combined");
  }
  UNetConfig& config = setup->config;
  const int64_t latents = config.out_channels;
  const int64_t wanted = options.self_conditioning ? 2 * latents : latents + 2;
  const FurtherInput further =
      options.self_conditioning ? FurtherInput::kEstimate : FurtherInput::kCoordinates;
  if (config.further_input == further) return absl::OkStatus();
  if (config.in_channels != latents) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the U-Net has ", config.in_channels,
                                                   " input channels; ", what, " needs ", wanted,
                                                   ", or ", latents, " to extend"));
  }
  setup->is_widened = true;
  config.in_channels = wanted;
  config.further_input = further;
  return absl::OkStatus();
}

absl::Status CheckUNetChannels(const UNetConfig& unet, const std::string& path) {
  if (unet.latent_channels() == unet.out_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the U-Net has ", unet.in_channels, " input channels and ", unet.out_channels,
      " output channels; only latents alone (4 and 4) are supported, not inpainting "
      "(9 and 4), editing (8 and 4) or depth (5 and 4)"));
}

UNetShape UNetDenoiser::ShapeOf(const LatentSize& size) const {
  return {size.height, size.width, setup_.context_length, setup_.context_widths};
}

std::vector<std::shared_ptr<const Condition>> UNetDenoiser::conditions() const {
  std::vector<std::shared_ptr<const Condition>> conditions;
  if (config().coordinates()) {
    conditions.push_back(std::make_shared<CoordinatesCondition>(setup_.downscale));
  }
  if (config().has_text_time()) conditions.push_back(std::make_shared<TimeIdsCondition>());
  return conditions;
}

std::vector<KohyaLayer> UNetDenoiser::kohya_layers() const {
  if (!config().has_text_time()) return {};
  const absl::StatusOr<nn::Program> program = BuildStored({size_multiple(), size_multiple()});
  DPIPE_CHECK(program.ok()) << program.status();
  std::vector<KohyaLayer> layers;
  for (int i = 0; i < program->num_parameters(); ++i) {
    const nn::ParameterInfo& parameter = program->parameter(nn::ParameterId(i));
    absl::string_view layer = parameter.name;
    if (!absl::ConsumeSuffix(&layer, ".weight")) continue;
    layers.push_back({KohyaLayerName(OriginalUNetName(config(), layer)),
                      {{std::string(layer), parameter.shape[0]}}});
  }
  return layers;
}

nn::SelfConditioning UNetDenoiser::self_conditioning() const {
  if (!config().self_conditioning()) return {};
  return {"estimate", "prediction"};
}

absl::StatusOr<nn::Program> UNetDenoiser::BuildForTraining(const LatentSize& size,
                                                           const DenoiserTraining& training) const {
  return BuildUNetForTraining(config(), ShapeOf(size), *training.objective, training.lora);
}

absl::StatusOr<nn::Program> UNetDenoiser::BuildForDrawing(const LatentSize& size) const {
  return BuildUNetForInference(config(), ShapeOf(size));
}

absl::StatusOr<nn::Program> UNetDenoiser::BuildStored(const LatentSize& size) const {
  UNetConfig stored = config();
  if (setup_.is_widened) {
    stored.in_channels = stored.out_channels;
    stored.further_input = FurtherInput::kNone;
  }
  return BuildUNetForInference(stored, ShapeOf(size));
}

// With zeros for the further channels it computes the same.
void UNetDenoiser::FromStored(NamedTensors* parameters) const {
  if (!setup_.is_widened) return;
  Tensor& weight = parameters->at("conv_in.weight");
  weight = WithMoreInputChannels(weight, config().in_channels);
}

absl::StatusOr<std::string> UNetDenoiser::SavedConfig(const std::string& config,
                                                      const std::string& source) const {
  if (this->config().further_input == FurtherInput::kNone) return config;
  DPIPE_ASSIGN_OR_RETURN(auto json, ParseJsonObject<nlohmann::ordered_json>(config, source));
  json["in_channels"] = this->config().in_channels;
  json[kFurtherInputKey] = FurtherInputName(this->config().further_input);
  return JsonText(json, /*indent=*/2) + "\n";
}

}  // namespace dpipe::models

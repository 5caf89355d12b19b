// StableDiffusion::Save and its parts.
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "models/folder/copy_component.h"
#include "models/folder/model_index.h"
#include "models/lora/lora.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/vae/vae.h"

namespace dpipe::models {

namespace fs = std::filesystem;

absl::Status StableDiffusion::SaveScheduler(const std::string& folder) const {
  DPIPE_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/scheduler/scheduler_config.json", scheduler_config_));
  if (!changes_.zero_terminal_snr.value_or(false)) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const std::string index, ReadFile(folder + "/model_index.json"));
  return WriteFileAtomically(folder + "/model_index.json",
                             WithSchedulerClass(index, scheduler_config_));
}

namespace {

NamedTensors MastersOf(const nn::ParameterSet& parameters) {
  NamedTensors tensors;
  for (nn::ParameterId id : parameters.ids()) {
    tensors[parameters.program().parameter(id).name] = parameters.weight(id).master();
  }
  return tensors;
}

}  // namespace

absl::Status StableDiffusion::SaveTextEncoder(const std::string& folder,
                                              StoredFormat format) const {
  return SaveWeights(absl::StrCat(folder, "/text_encoder/", kTransformersWeights),
                     MastersOf(*frozen_[kTextEncoder]), format);
}

absl::Status StableDiffusion::SaveRandomVae(const std::string& folder, StoredFormat format) const {
  DPIPE_ASSIGN_OR_RETURN(const nn::Program decoder,
                         BuildVaeDecoder(vae_config_, image_size_, image_size_));
  DPIPE_ASSIGN_OR_RETURN(NamedTensors vae, LoadDecoder(decoder));
  NamedTensors encoder = MastersOf(*frozen_[kVaeEncoder]);
  vae.merge(encoder);
  return SaveWeights(absl::StrCat(folder, "/vae/", kDiffusersWeights), vae, format);
}

absl::Status StableDiffusion::CopyComponents(const std::string& folder,
                                             bool with_unet_weights) const {
  const std::string path = folder_ + "/model_index.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ParseModelIndex(text, path));
  std::set<std::string> names = index.components;
  names.insert({"scheduler", "text_encoder", "tokenizer", "unet", "vae"});
  names.erase(saved_elsewhere_);
  std::set<std::string> missing;
  for (const std::string& name : names) {
    const std::string from = absl::StrCat(folder_, "/", name);
    std::error_code error;
    if (!fs::is_directory(from, error)) {
      missing.insert(name);
      continue;
    }
    bool with_weights = true;
    if (name == "unet") with_weights = with_unet_weights;
    if (name == "text_encoder") with_weights = !text_encoder_is_adapted_;
    DPIPE_RETURN_IF_ERROR(CopyComponent(from, absl::StrCat(folder, "/", name), with_weights));
  }
  return WriteFileAtomically(folder + "/model_index.json", WithoutComponents(text, missing));
}

absl::Status StableDiffusion::SaveOthers(const std::string& folder, bool with_unet_weights,
                                         StoredFormat format) const {
  std::error_code error;
  if (fs::equivalent(folder, folder_, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to overwrite ", folder, ": the model was loaded from it"));
  }
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(CopyComponents(folder, with_unet_weights));
  DPIPE_RETURN_IF_ERROR(SaveScheduler(folder));
  if (unet_config_.further_input != FurtherInput::kNone) {
    const std::string path = folder_ + "/unet/config.json";
    DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    DPIPE_ASSIGN_OR_RETURN(auto json, ParseJsonObject<nlohmann::ordered_json>(text, path));
    json["in_channels"] = unet_config_.in_channels;
    json[kFurtherInputKey] = FurtherInputName(unet_config_.further_input);
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(folder + "/unet/config.json", JsonText(json, /*indent=*/2) + "\n"));
  }
  if (frozen_is_random_ || text_encoder_is_adapted_) {
    DPIPE_RETURN_IF_ERROR(SaveTextEncoder(folder, format));
  }
  return frozen_is_random_ ? SaveRandomVae(folder, format) : absl::OkStatus();
}

absl::Status StableDiffusion::Save(const std::string& folder,
                                   const std::map<std::string, Tensor>& unet,
                                   StoredFormat format) const {
  const SplitParameters split = SplitLora(unet);
  const bool keeps_unet = lora_.rank > 0 && has_unet_weights();
  DPIPE_RETURN_IF_ERROR(SaveOthers(folder, /*with_unet_weights=*/keeps_unet, format));
  if (lora_.rank > 0) {
    DPIPE_RETURN_IF_ERROR(SaveLora(absl::StrCat(folder, "/", kLoraFile), split.adapters,
                                   lora_.scale, lora_format_, format));
  }
  if (keeps_unet) return absl::OkStatus();
  return SaveWeights(absl::StrCat(folder, "/unet/", kDiffusersWeights), split.base, format);
}

absl::Status StableDiffusion::SaveWithLockedUNet(const std::string& folder,
                                                 StoredFormat format) const {
  if (frozen_is_random_ || has_adapters()) {
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors unet, LoadLockedUNet());
    return Save(folder, unet, format);
  }
  return SaveOthers(folder, /*with_unet_weights=*/true, format);
}

}  // namespace dpipe::models

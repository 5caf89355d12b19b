#include "tools/profiles/catalogue.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/cost/roofline/mmdit.h"
#include "core/cost/roofline/sdxl_unet.h"
#include "core/cost/roofline/text_encoders.h"
#include "core/profile/component_work.h"
#include "models/cascade/cascade.h"
#include "models/clip_text/clip_text.h"
#include "models/controlnet/controlnet.h"
#include "models/controlnet/controlnet_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"

namespace dpipe::tools {
namespace {

using roofline::ComponentWork;
using roofline::ModelWork;
using Sources = std::map<std::string, nn::InputSource>;

constexpr int64_t kPixelsPerLatent = 8;

std::string Folder(const std::string& model) { return ProgramDataPath("data/models/" + model); }

// The backbone's inputs that the frozen encoders compute.
Sources EncoderSources() {
  return {{"latents", {"vae_encoder", "latents"}},
          {"context", {"text_encoder", "last_hidden_state"}}};
}

ComponentWork WorkOfComponent(const std::string& name, bool is_backbone, nn::Program program,
                              Sources sources) {
  nn::Component component{name, is_backbone, std::move(program), std::move(sources)};
  if (is_backbone && component.program.outputs().size() > 1) {
    component.self_conditioning = {"estimate", "prediction"};
  }
  return WorkOf(component);
}

// `change` alters the configuration of v1.5, whose encoder all models here have in common.
absl::StatusOr<ComponentWork> VaeEncoder(
    int64_t image_size, const std::function<void(models::VaeConfig*)>& change = nullptr) {
  DPIPE_ASSIGN_OR_RETURN(
      models::VaeConfig config,
      models::ReadVaeConfig(Folder("stable_diffusion_v1_5") + "/vae/config.json"));
  if (change) change(&config);
  DPIPE_ASSIGN_OR_RETURN(nn::Program program,
                         models::BuildVaeEncoder(config, image_size, image_size));
  return WorkOfComponent("vae_encoder", false, std::move(program), {});
}

// The two encoders in front of the U-Net of the model in `folder`.
absl::StatusOr<std::vector<ComponentWork>> Encoders(const std::string& folder, int64_t image_size) {
  DPIPE_ASSIGN_OR_RETURN(ComponentWork vae, VaeEncoder(image_size));
  DPIPE_ASSIGN_OR_RETURN(const models::ClipTextConfig config,
                         models::ReadClipTextConfig(folder + "/text_encoder/config.json"));
  DPIPE_ASSIGN_OR_RETURN(nn::Program text, models::BuildClipText(config, config.max_positions));
  return std::vector<ComponentWork>{std::move(vae),
                                    WorkOfComponent("text_encoder", false, std::move(text), {})};
}

absl::StatusOr<models::UNetConfig> UNetOf(const std::string& folder) {
  return models::ReadUNetConfig(folder + "/unet/config.json");
}

models::UNetShape ShapeOf(int64_t image_size) {
  models::UNetShape shape;
  shape.height = shape.width = image_size / kPixelsPerLatent;
  return shape;
}

// Work does not depend on the schedule.
absl::StatusOr<models::UNetTraining> Training() {
  DPIPE_ASSIGN_OR_RETURN(diffusion::NoiseSchedule schedule, diffusion::NoiseSchedule::Create({}));
  return models::UNetTraining{std::move(schedule)};
}

absl::StatusOr<ModelWork> StableDiffusion(const std::string& name, int64_t image_size,
                                          bool self_conditioning) {
  const std::string folder = Folder(name);
  ModelWork model;
  model.name = name;
  DPIPE_ASSIGN_OR_RETURN(model.components, Encoders(folder, image_size));
  DPIPE_ASSIGN_OR_RETURN(models::UNetConfig config, UNetOf(folder));
  if (self_conditioning) {
    absl::StrAppend(&model.name, "_self_conditioning");
    model.self_conditioning_probability = 0.5;
    config.in_channels += config.out_channels;
    config.further_input = models::FurtherInput::kEstimate;
  }
  DPIPE_ASSIGN_OR_RETURN(const models::UNetTraining training, Training());
  DPIPE_ASSIGN_OR_RETURN(nn::Program unet,
                         models::BuildUNetForTraining(config, ShapeOf(image_size), training));
  model.components.push_back(WorkOfComponent("unet", true, std::move(unet), EncoderSources()));
  return model;
}

absl::StatusOr<ModelWork> Cascade(const std::string& name) {
  ModelWork model;
  model.name = name;
  model.notes =
      "Stand-ins: the original's layer settings are not public, so these are guided-diffusion's "
      "published 64 px and 256 px settings (data/models). Nothing is frozen.";
  DPIPE_ASSIGN_OR_RETURN(const std::unique_ptr<models::TrainableModel> cascade,
                         models::Cascade::Load(Folder(name), {}));
  for (int i = 0; i < cascade->model().num_components(); ++i) {
    model.components.push_back(WorkOf(cascade->model().component(i)));
  }
  return model;
}

}  // namespace

absl::StatusOr<ModelWork> StableDiffusionV21(int64_t image_size, bool self_conditioning) {
  return StableDiffusion("stable_diffusion_v2_1", image_size, self_conditioning);
}

absl::StatusOr<ModelWork> StableDiffusionV15(int64_t image_size) {
  return StableDiffusion("stable_diffusion_v1_5", image_size, /*self_conditioning=*/false);
}

absl::StatusOr<ModelWork> ControlNetV10(int64_t image_size) {
  const std::string folder = Folder("stable_diffusion_v1_5");
  const models::UNetShape shape = ShapeOf(image_size);
  ModelWork model;
  model.name = "controlnet_v1_0";
  model.notes =
      "On Stable Diffusion v1.5. The locked encoder's values are added to the copy's in the zero "
      "convolutions' layers.";
  DPIPE_ASSIGN_OR_RETURN(model.components, Encoders(folder, image_size));
  DPIPE_ASSIGN_OR_RETURN(const models::UNetConfig unet, UNetOf(folder));
  const std::string path = folder + "/unet/config.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string unet_json, ReadFile(path));
  DPIPE_ASSIGN_OR_RETURN(
      const std::string json,
      models::ControlNetConfigOf(unet_json, path, models::DefaultHintChannels(kPixelsPerLatent)));
  DPIPE_ASSIGN_OR_RETURN(const models::ControlNetConfig config,
                         models::ParseControlNetConfig(json, path));
  DPIPE_ASSIGN_OR_RETURN(const models::UNetTraining training, Training());
  DPIPE_ASSIGN_OR_RETURN(nn::Program locked,
                         models::BuildLockedEncoder(unet, shape, training.schedule));
  DPIPE_ASSIGN_OR_RETURN(nn::Program backbone,
                         models::BuildControlNetForTraining(config, unet, shape, training));
  Sources sources = EncoderSources();
  for (ValueId output : locked.outputs()) {
    const std::string& name = locked.value(output).name;
    sources[name] = {"locked_encoder", name};
  }
  model.components.push_back(
      WorkOfComponent("locked_encoder", false, std::move(locked), EncoderSources()));
  model.components.push_back(WorkOfComponent("controlnet", true, std::move(backbone), sources));
  return model;
}

absl::StatusOr<ModelWork> CdmLsun() { return Cascade("cdm_lsun"); }
absl::StatusOr<ModelWork> CdmImageNet() { return Cascade("cdm_imagenet"); }

absl::StatusOr<ModelWork> Sdxl(int64_t image_size) {
  roofline::ClipTextOptions first;
  first.num_layers = 11;  // only the penultimate state is read
  first.final_norm = false;
  roofline::ClipTextOptions second;
  second.name = "text_encoder_2";
  second.width = 1280;
  second.hidden = 5120;
  second.num_layers = 32;
  second.penultimate_output = second.pooled = second.projection = true;
  ModelWork model;
  model.name = "sdxl";
  model.notes = "The base model.";
  DPIPE_ASSIGN_OR_RETURN(ComponentWork vae, VaeEncoder(image_size));
  model.components = {std::move(vae), roofline::ClipText(first), roofline::ClipText(second),
                      roofline::SdxlUNet(image_size / kPixelsPerLatent)};
  return model;
}

absl::StatusOr<ModelWork> Flux(int64_t image_size) {
  DPIPE_ASSIGN_OR_RETURN(ComponentWork vae, VaeEncoder(image_size, [](models::VaeConfig* config) {
                           config->latent_channels = 16;
                           config->use_quant_conv = false;
                         }));
  roofline::ClipTextOptions clip;
  clip.pooled = true;
  roofline::MmditOptions mmdit;
  mmdit.latent_size = image_size / kPixelsPerLatent;
  ModelWork model;
  model.name = "flux";
  model.notes = "A transformer of FLUX.1's size with all of its weights trained.";
  model.components = {std::move(vae), roofline::ClipText(clip),
                      roofline::T5XxlEncoder(mmdit.text_length), roofline::Mmdit(mmdit)};
  return model;
}

const std::vector<CatalogueEntry>& Catalogue() {
  static const auto* const catalogue = [] {
    const struct {
      const char* file;
      absl::StatusOr<ModelWork> (*make)();
      bool on_h200;
    } models[] = {
        {"stable_diffusion_v2_1_512", [] { return StableDiffusionV21(512, false); }, true},
        {"stable_diffusion_v2_1_256", [] { return StableDiffusionV21(256, false); }, true},
        {"stable_diffusion_v2_1_self_conditioning_512",
         [] { return StableDiffusionV21(512, true); }, false},
        {"stable_diffusion_v1_5_512", [] { return StableDiffusionV15(512); }, false},
        {"controlnet_v1_0_512", [] { return ControlNetV10(512); }, false},
        {"cdm_lsun_256", CdmLsun, false},
        {"cdm_imagenet_256", CdmImageNet, false},
        {"sdxl_1024", [] { return Sdxl(1024); }, true},
        {"flux_1024", [] { return Flux(1024); }, false},
        {"flux_512", [] { return Flux(512); }, false},
    };
    auto* entries = new std::vector<CatalogueEntry>;
    for (const roofline::DeviceSpec& device : roofline::Devices()) {
      for (const auto& model : models) {
        if (device.name == "h200_sxm" && !model.on_h200) continue;
        entries->push_back(
            {device.name, absl::StrCat(device.name, "/", model.file, ".textproto"), model.make});
      }
    }
    return entries;
  }();
  return *catalogue;
}

absl::StatusOr<ModelProfile> ProfileOf(const CatalogueEntry& entry) {
  DPIPE_ASSIGN_OR_RETURN(const ModelWork model, entry.make());
  for (const roofline::DeviceSpec& device : roofline::Devices()) {
    if (device.name == entry.device) return roofline::ModelledProfile(model, device);
  }
  DPIPE_CHECK(false) << "no device " << entry.device;
  return ModelProfile();
}

}  // namespace dpipe::tools

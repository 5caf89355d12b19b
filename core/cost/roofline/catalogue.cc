#include "core/cost/roofline/catalogue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/cost/roofline/controlnet.h"
#include "core/cost/roofline/guided_unet.h"
#include "core/cost/roofline/mmdit.h"
#include "core/cost/roofline/text_encoders.h"
#include "core/cost/roofline/unet.h"
#include "core/cost/roofline/vae_encoder.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kPixelsPerLatent = 8;

ComponentWork Vae(int64_t image_size) {
  VaeEncoderOptions options;
  options.image_size = image_size;
  return VaeEncoder(options);
}

// CLIP ViT-L/14's text model, and the text model of OpenCLIP ViT-H/14 without its last layer.
ClipTextOptions ClipL() { return {}; }
ClipTextOptions OpenClipH() {
  ClipTextOptions options;
  options.width = 1024;
  options.hidden = 4096;
  options.num_layers = 23;
  return options;
}

UNetTrainingOptions LatentTraining(int64_t image_size, int64_t context_width) {
  UNetTrainingOptions options;
  options.latent_size = image_size / kPixelsPerLatent;
  options.contexts = {{"text_encoder", "last_hidden_state", context_width}};
  return options;
}

ModelWork Cdm(const std::string& name, bool class_labels, int64_t super_resolution_channels) {
  ModelWork model;
  model.name = name;
  model.notes =
      "Stand-ins: the original's layer settings are not public, so these are guided-diffusion's "
      "published 64 px and 256 px settings; the second backbone also reads the enlarged 64 px "
      "image, which is drawn or loaded with its pixels. Nothing is frozen.";
  GuidedUNetOptions base;
  base.name = "base_64";
  base.class_labels = class_labels;
  model.components.push_back(GuidedUNet(base));
  GuidedUNetOptions up;
  up.name = "super_resolution_256";
  up.image_size = 256;
  up.channels = super_resolution_channels;
  up.multipliers = {1, 1, 2, 2, 4, 4};
  up.resnets_per_level = 2;
  up.conditioned = true;
  up.class_labels = class_labels;
  model.components.push_back(GuidedUNet(up));
  return model;
}

}  // namespace

ModelWork StableDiffusionV21(int64_t image_size, bool self_conditioning) {
  ModelWork model;
  model.name =
      self_conditioning ? "stable_diffusion_v2_1_self_conditioning" : "stable_diffusion_v2_1";
  model.components = {Vae(image_size), ClipText(OpenClipH())};
  UNetTrainingOptions options = LatentTraining(image_size, 1024);
  options.self_conditioning = self_conditioning;
  if (self_conditioning) model.self_conditioning_probability = 0.5;
  model.components.push_back(UNetForTraining(StableDiffusionV21UNet(), options));
  return model;
}

ModelWork StableDiffusionV15(int64_t image_size) {
  ModelWork model;
  model.name = "stable_diffusion_v1_5";
  model.components = {Vae(image_size), ClipText(ClipL()),
                      UNetForTraining(StableDiffusionV15UNet(), LatentTraining(image_size, 768))};
  return model;
}

ModelWork ControlNetV10(int64_t image_size) {
  const UNetArchitecture unet = StableDiffusionV15UNet();
  ModelWork model;
  model.name = "controlnet_v1_0";
  model.notes =
      "On Stable Diffusion v1.5. The locked encoder's values are added to the copy's in the zero "
      "convolutions' layers.";
  model.components = {Vae(image_size), ClipText(ClipL()),
                      LockedEncoder(unet, image_size / kPixelsPerLatent),
                      ControlNetForTraining(unet, image_size / kPixelsPerLatent)};
  return model;
}

ModelWork CdmLsun() { return Cdm("cdm_lsun", /*class_labels=*/false, 256); }
ModelWork CdmImageNet() { return Cdm("cdm_imagenet", /*class_labels=*/true, 192); }

ModelWork Sdxl(int64_t image_size) {
  ClipTextOptions first = ClipL();
  first.num_layers = 11;  // only the penultimate state is read
  first.final_norm = false;
  ClipTextOptions second;
  second.name = "text_encoder_2";
  second.width = 1280;
  second.hidden = 5120;
  second.num_layers = 32;
  second.penultimate_output = second.pooled = second.projection = true;
  UNetTrainingOptions options;
  options.latent_size = image_size / kPixelsPerLatent;
  options.contexts = {{"text_encoder", "last_hidden_state", 768},
                      {"text_encoder_2", "penultimate_hidden_state", 1280}};
  options.pooled = {"text_encoder_2", "pooled", 1280};
  ModelWork model;
  model.name = "sdxl";
  model.notes = "The base model.";
  model.components = {Vae(image_size), ClipText(first), ClipText(second),
                      UNetForTraining(SdxlUNet(), options)};
  return model;
}

ModelWork Flux(int64_t image_size) {
  VaeEncoderOptions vae;
  vae.image_size = image_size;
  vae.latent_channels = 16;
  vae.quant_conv = false;
  ClipTextOptions clip = ClipL();
  clip.pooled = true;
  MmditOptions mmdit;
  mmdit.latent_size = image_size / kPixelsPerLatent;
  ModelWork model;
  model.name = "flux";
  model.notes = "A transformer of FLUX.1's size with all of its weights trained.";
  model.components = {VaeEncoder(vae), ClipText(clip), T5XxlEncoder(mmdit.text_length),
                      Mmdit(mmdit)};
  return model;
}

const std::vector<CatalogueEntry>& Catalogue() {
  static const auto* const catalogue = [] {
    const struct {
      const char* file;
      ModelWork (*make)();
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
    for (const DeviceSpec& device : Devices()) {
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

ModelProfile ProfileOf(const CatalogueEntry& entry) {
  for (const DeviceSpec& device : Devices()) {
    if (device.name == entry.device) return ModelledProfile(entry.make(), device);
  }
  DPIPE_CHECK(false) << "no device " << entry.device;
  return {};
}

}  // namespace dpipe::roofline

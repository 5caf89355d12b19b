#include "tools/profiles/catalogue.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/run_paths.h"
#include "core/profile/component_work.h"
#include "models/cascade/cascade.h"
#include "models/controlnet/trainable.h"
#include "models/flux/flux.h"
#include "models/latent/latent_parts.h"
#include "models/sd3/sd3.h"
#include "models/sdxl/sdxl.h"
#include "models/stable_diffusion/stable_diffusion.h"

namespace dpipe::tools {
namespace {

using roofline::ModelWork;

std::string Folder(const std::string& model) { return ProgramDataPath("data/models/" + model); }

absl::StatusOr<ModelWork> LatentModel(const std::string& name,
                                      const absl::StatusOr<models::LatentParts>& parts,
                                      int64_t image_size) {
  DPIPE_RETURN_IF_ERROR(parts.status());
  const int side = static_cast<int>(image_size);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<nn::Component> components,
                         parts->MakeComponents({side, side}));
  ModelWork model;
  model.name = name;
  for (const nn::Component& component : components) model.components.push_back(WorkOf(component));
  return model;
}

// Of a model that is trained whole, with `note`, or by adapters.
absl::StatusOr<ModelWork> Tuned(const std::string& name, const std::string& note,
                                absl::StatusOr<models::LatentParts> (*read)(
                                    const std::string&, const models::LoadModelOptions&),
                                const std::string& folder, int64_t image_size, int lora_rank) {
  models::LoadModelOptions options;
  options.lora.rank = lora_rank;
  DPIPE_ASSIGN_OR_RETURN(ModelWork model,
                         LatentModel(name, read(Folder(folder), options), image_size));
  model.notes =
      lora_rank == 0 ? note : absl::StrCat("Only adapters of rank ", lora_rank, " are trained.");
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
  models::LoadModelOptions options;
  options.self_conditioning = self_conditioning;
  const std::string name = "stable_diffusion_v2_1";
  DPIPE_ASSIGN_OR_RETURN(
      ModelWork model,
      LatentModel(name, models::ReadStableDiffusion(Folder(name), options), image_size));
  if (!self_conditioning) return model;
  absl::StrAppend(&model.name, "_self_conditioning");
  model.self_conditioning_probability = 0.5;
  return model;
}

absl::StatusOr<ModelWork> StableDiffusionV15(int64_t image_size) {
  const std::string name = "stable_diffusion_v1_5";
  return LatentModel(name, models::ReadStableDiffusion(Folder(name), {}), image_size);
}

absl::StatusOr<ModelWork> ControlNetV10(int64_t image_size) {
  DPIPE_ASSIGN_OR_RETURN(
      ModelWork model,
      LatentModel("controlnet_v1_0", models::ReadControlNet(Folder("stable_diffusion_v1_5"), {}),
                  image_size));
  model.notes =
      "On Stable Diffusion v1.5. The locked encoder's values are added to the copy's in the zero "
      "convolutions' layers.";
  return model;
}

absl::StatusOr<ModelWork> CdmLsun() { return Cascade("cdm_lsun"); }
absl::StatusOr<ModelWork> CdmImageNet() { return Cascade("cdm_imagenet"); }

absl::StatusOr<ModelWork> Sdxl(int64_t image_size, int lora_rank) {
  return Tuned("sdxl", "The base model.", models::ReadStableDiffusionXl, "stable_diffusion_xl",
               image_size, lora_rank);
}

absl::StatusOr<ModelWork> StableDiffusion35(const std::string& size, int64_t image_size,
                                            int lora_rank) {
  const std::string name = "stable_diffusion_3_5_" + size;
  return Tuned(name, "Texts have 256 tokens for T5.", models::ReadSd3, name, image_size, lora_rank);
}

absl::StatusOr<ModelWork> Flux(int64_t image_size, int lora_rank) {
  return Tuned("flux", "FLUX.1 dev with all of its transformer's weights trained.",
               models::ReadFlux, "flux_1_dev", image_size, lora_rank);
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
        {"stable_diffusion_3_5_medium_1024", [] { return StableDiffusion35("medium", 1024); },
         false},
        {"stable_diffusion_3_5_large_1024", [] { return StableDiffusion35("large", 1024); }, false},
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

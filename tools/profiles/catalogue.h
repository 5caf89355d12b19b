// The models with profiles in data/profiles/modelled, and their work, from the programs of models/
// in data/models' configurations.
#ifndef DPIPE_TOOLS_PROFILES_CATALOGUE_H_
#define DPIPE_TOOLS_PROFILES_CATALOGUE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::tools {

// `image_size` is in pixels, a multiple of 64. Errors are those of reading configurations.
absl::StatusOr<roofline::ModelWork> StableDiffusionV21(int64_t image_size, bool self_conditioning);
absl::StatusOr<roofline::ModelWork> StableDiffusionV15(int64_t image_size);
absl::StatusOr<roofline::ModelWork> ControlNetV10(int64_t image_size);
absl::StatusOr<roofline::ModelWork> CdmLsun();      // 64 px, and 64 to 256 px
absl::StatusOr<roofline::ModelWork> CdmImageNet();  // the same, with class labels
// With a `lora_rank` > 0, only low-rank adapters of each family's default layers are trained.
absl::StatusOr<roofline::ModelWork> Sdxl(int64_t image_size, int lora_rank = 0);
// `size` is "medium" or "large".
absl::StatusOr<roofline::ModelWork> StableDiffusion35(const std::string& size, int64_t image_size,
                                                      int lora_rank = 0);
absl::StatusOr<roofline::ModelWork> Flux(int64_t image_size, int lora_rank = 0);

struct CatalogueEntry {
  std::string device;  // DeviceSpec.name
  std::string path;    // "a100_80gb/stable_diffusion_v2_1_512.textproto"
  absl::StatusOr<roofline::ModelWork> (*make)();
};

// All files, by device, then by model. A100 and H100 have all models; H200 has SDXL and those of
// its calibration.
const std::vector<CatalogueEntry>& Catalogue();

// Returns the profile of an entry; dies if the device does not exist.
absl::StatusOr<ModelProfile> ProfileOf(const CatalogueEntry& entry);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PROFILES_CATALOGUE_H_

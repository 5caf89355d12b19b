// The models with profiles in data/profiles/modelled, and their work: from the programs of models/
// in data/models' configurations, or from core/cost/roofline for models without a program.
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
absl::StatusOr<roofline::ModelWork> Sdxl(int64_t image_size);
absl::StatusOr<roofline::ModelWork> Flux(int64_t image_size);

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

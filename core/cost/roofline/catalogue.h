// The models with profiles in data/profiles/modelled.
#ifndef DPIPE_CORE_COST_ROOFLINE_CATALOGUE_H_
#define DPIPE_CORE_COST_ROOFLINE_CATALOGUE_H_

#include <string>
#include <vector>

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

// `image_size` is in pixels, a multiple of 64.
ModelWork StableDiffusionV21(int64_t image_size, bool self_conditioning);
ModelWork StableDiffusionV15(int64_t image_size);
ModelWork ControlNetV10(int64_t image_size);
ModelWork CdmLsun();      // 64 px, and 64 to 256 px
ModelWork CdmImageNet();  // the same, with class labels
ModelWork Sdxl(int64_t image_size);
ModelWork Flux(int64_t image_size);

struct CatalogueEntry {
  std::string device;  // DeviceSpec.name
  std::string path;    // "a100_80gb/stable_diffusion_v2_1_512.textproto"
  ModelWork (*make)();
};

// All files, by device, then by model. A100 and H100 have all models; H200 has SDXL and those of
// its calibration.
const std::vector<CatalogueEntry>& Catalogue();

// Returns the profile of an entry; dies if the device does not exist.
ModelProfile ProfileOf(const CatalogueEntry& entry);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_CATALOGUE_H_

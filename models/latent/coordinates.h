// Coordinates of latents in their picture, an input of U-Nets that are trained on patches.
#ifndef DPIPE_MODELS_LATENT_COORDINATES_H_
#define DPIPE_MODELS_LATENT_COORDINATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"
#include "data/images/patches.h"

namespace dpipe::models {

// Returns fp32 [patches, height, width, 2] for latents whose sides are the patch's divided by
// `downscale`: across and down, with the picture's first latent pixel at -1 and its last at 1 (Wang
// et al., arXiv 2304.12526). Patches may begin between two latent pixels of the picture. All must
// have one size.
Tensor PatchCoordinates(const std::shared_ptr<Device>& device, const std::vector<Patch>& patches,
                        int64_t downscale);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_COORDINATES_H_

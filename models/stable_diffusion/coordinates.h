// Where latents' pixels lie in their picture, as a U-Net that is trained on patches is told.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_COORDINATES_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_COORDINATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/tensor.h"
#include "data/patches.h"

namespace dpipe::models {

// fp32 [patches, height, width, 2] of latents, whose sides are the patch's over `downscale`: across
// and down, the picture's first latent pixel at -1 and its last at 1 (Wang et al., arXiv
// 2304.12526). Patches may begin between two latent pixels of the picture. All of one size.
Tensor PatchCoordinates(const std::shared_ptr<Device>& device, const std::vector<Patch>& patches,
                        int64_t downscale);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_COORDINATES_H_

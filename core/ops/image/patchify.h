// Cuts images into square patches, each one token, and joins them again.
#ifndef DPIPE_CORE_OPS_IMAGE_PATCHIFY_H_
#define DPIPE_CORE_OPS_IMAGE_PATCHIFY_H_

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// The order of a patch's elements.
enum class PatchOrder {
  kChannelFirst,  // channel, row, column: FLUX's packing of latents
  kPixelFirst,    // row, column, channel: the output of Stable Diffusion 3
};

// x [B, H, W, C], fp32 or bf16 -> [B, (H / size) (W / size), C size^2], patches by rows. The size
// must divide H and W. The gradient is Unpatchify's result.
absl::StatusOr<Tensor> Patchify(PatchOrder order, int64_t size, const Tensor& x);

// The inverse: patches [B, (height / size) (width / size), C size^2] -> [B, height, width, C]. The
// gradient is Patchify's result.
absl::StatusOr<Tensor> Unpatchify(PatchOrder order, int64_t size, int64_t height, int64_t width,
                                  const Tensor& patches);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_PATCHIFY_H_

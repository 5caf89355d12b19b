// Ops that only move elements: joins and slices along the last dimension, and patches of images.
#ifndef DPIPE_CORE_OPS_IMAGE_REARRANGE_H_
#define DPIPE_CORE_OPS_IMAGE_REARRANGE_H_

#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Concatenation along the last dimension (a U-Net's skip connections):
//
// parts [..., C_i] -> [..., sum C_i] in the given order. At least one part; all have one dtype
// (fp32 or bf16) and the same leading dimensions.
absl::StatusOr<Tensor> ConcatChannels(absl::Span<const Tensor> parts);

// The inverse, and therefore the gradient: x [..., C] -> one tensor [..., channels[i]] each. The
// channels must add up to C.
absl::StatusOr<std::vector<Tensor>> SplitChannels(const Tensor& x,
                                                  absl::Span<const int64_t> channels);

// x [..., C] -> [..., width]: the elements from `begin` on.
absl::StatusOr<Tensor> SliceChannels(const Tensor& x, int64_t begin, int64_t width);

// The gradient of SliceChannels: dy [..., width] -> [..., channels], with zeros elsewhere.
// `addend`, which has the result's shape and dtype, is added to it unless undefined.
absl::StatusOr<Tensor> SliceChannelsInputGrad(const Tensor& dy, int64_t begin, int64_t channels,
                                              const Tensor& addend = Tensor());

// Cuts images into square patches, each one token, and joins them again.

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

#endif  // DPIPE_CORE_OPS_IMAGE_REARRANGE_H_

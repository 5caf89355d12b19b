// Concatenates tensors along the last dimension (a U-Net's skip connections), and takes them apart.
#ifndef DPIPE_CORE_OPS_IMAGE_CONCAT_H_
#define DPIPE_CORE_OPS_IMAGE_CONCAT_H_

#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

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

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_IMAGE_CONCAT_H_

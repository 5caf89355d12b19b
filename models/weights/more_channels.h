// Weights of a convolution that gets more input than it had.
#ifndef DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_
#define DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dpipe::models {

// fp32 [out, in, kh, kw] with input channels added behind, at zero, so that there are `in_channels`
// of them: given what it was given before, and anything else, it computes the same.
Tensor WithMoreInputChannels(const Tensor& weight, int64_t in_channels);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_

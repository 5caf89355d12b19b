// Widens a convolution's weights for additional input channels.
#ifndef DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_
#define DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_

#include <cstdint>

#include "core/tensor/tensor.h"

namespace dpipe::models {

// Returns `weight`, fp32 [out, in, kh, kw], with zero weights appended for input channels, so that
// there are `in_channels` of them. The convolution's output does not depend on the added channels.
Tensor WithMoreInputChannels(const Tensor& weight, int64_t in_channels);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_MORE_CHANNELS_H_

// Convolutions and fully connected layers as nodes.
#ifndef DPIPE_CORE_NN_NODES_PRODUCT_NODES_H_
#define DPIPE_CORE_NN_NODES_PRODUCT_NODES_H_

#include <optional>
#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/product/conv2d.h"

namespace dpipe::nn {

struct Conv2dSpec {
  int64_t out_channels = 0;
  int kernel = 3;
  ops::Conv2dParams params = ops::Conv2dSymmetric(/*stride=*/1, /*padding=*/1);
  bool zero_init = false;  // weight and bias start at zero (ControlNet's zero convolutions)
  // Added to the result: [P, Q, out_channels], or [out_channels] at every pixel.
  std::optional<ValueId> addend = std::nullopt;
};

// x [H, W, C] -> [P, Q, out_channels]. Parameters `<name>.weight` [out, in, kernel, kernel] and
// `<name>.bias` [out]. Saves x for the weight gradient.
ValueId AddConv2d(ProgramBuilder* builder, const std::string& name, ValueId x,
                  const Conv2dSpec& spec);

struct LinearSpec {
  int64_t out = 0;
  bool bias = true;
  // If set, the checkpoint stores it as a 1x1 convolution: its weight is [out, in, 1, 1].
  bool conv1x1 = false;
  bool zero_init = false;
  std::optional<ValueId> addend = std::nullopt;  // [..., out]: added to the result
};

// x [..., in] -> [..., out]. Parameters `<name>.weight` and, with a bias, `<name>.bias`. Saves x
// for the weight gradient.
ValueId AddLinear(ProgramBuilder* builder, const std::string& name, ValueId x,
                  const LinearSpec& spec);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_PRODUCT_NODES_H_

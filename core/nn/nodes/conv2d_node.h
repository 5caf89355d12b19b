// Two-dimensional convolution as a node.
#ifndef DPIPE_CORE_NN_NODES_CONV2D_NODE_H_
#define DPIPE_CORE_NN_NODES_CONV2D_NODE_H_

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

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_CONV2D_NODE_H_

// Fully connected layers as nodes.
#ifndef DPIPE_CORE_NN_NODES_LINEAR_NODE_H_
#define DPIPE_CORE_NN_NODES_LINEAR_NODE_H_

#include <optional>
#include <string>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

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

#endif  // DPIPE_CORE_NN_NODES_LINEAR_NODE_H_

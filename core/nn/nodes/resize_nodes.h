// Nodes without parameters that resize an image; see also AddUpsample2x.
#ifndef DPIPE_CORE_NN_NODES_RESIZE_NODES_H_
#define DPIPE_CORE_NN_NODES_RESIZE_NODES_H_

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// x [2H, 2W, C] -> [H, W, C], means of 2 x 2 squares. Saves nothing.
ValueId AddAveragePool2x(ProgramBuilder* builder, ValueId x);

// x [H, W, C] -> [height, width, C], bilinear (ops/image/resize_bilinear.h). Saves nothing.
ValueId AddResizeBilinear(ProgramBuilder* builder, ValueId x, int64_t height, int64_t width);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_RESIZE_NODES_H_

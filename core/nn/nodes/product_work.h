// The work of nodes that multiply by a weight and may add a second input.
#ifndef DPIPE_CORE_NN_NODES_PRODUCT_WORK_H_
#define DPIPE_CORE_NN_NODES_PRODUCT_WORK_H_

#include "core/nn/node.h"

namespace dpipe::nn {

// Returns the work of the product and, if there is a second input, of adding it. The product's
// input is kept for the weight gradient.
NodeWork WorkOfProduct(const roofline::ProductSizes& product, const WorkContext& context);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_PRODUCT_WORK_H_

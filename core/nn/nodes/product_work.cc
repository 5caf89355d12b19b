#include "core/nn/nodes/product_work.h"

namespace dpipe::nn {

NodeWork WorkOfProduct(const roofline::ProductSizes& product, const WorkContext& context) {
  NodeWork work;
  work.ops = {roofline::ProductWork(product, context.gradients())};
  work.saved_inputs = context.wants_weight_grad ? 1 : 0;
  if (context.input_bytes.size() > 1) {
    const bool product_has_gradient = context.WantsInputGrad(0) || context.wants_weight_grad;
    const int64_t gradients = (product_has_gradient ? product.output_bytes : 0) +
                              (context.WantsInputGrad(1) ? context.input_bytes[1] : 0);
    work.ops.push_back(roofline::ElementwiseWork(product.output_bytes + context.input_bytes[1],
                                                 product.output_bytes, gradients,
                                                 /*rereads=*/false));
  }
  return work;
}

}  // namespace dpipe::nn

#include "core/cost/roofline/op_work.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kGradientMoves = 2 * kMasterBytes;  // a gradient is read, accumulated and written

}  // namespace

OpWork ProductWork(const ProductSizes& product, Gradients gradients) {
  const int64_t moved = product.input_bytes + product.output_bytes;
  OpWork op;
  op.op_class = product.op_class;
  op.forward = {product.macs, moved, product.weights * kActivationBytes, 1};
  if (gradients.of_inputs) op.input_grad = op.forward;
  if (gradients.of_weights) {
    const int64_t for_bias = product.has_bias ? product.output_bytes : 0;
    op.weight_grad = {product.macs, moved + for_bias, product.weights * kGradientMoves, 1};
  }
  return op;
}

OpWork NormWork(int64_t bytes, Gradients gradients) {
  OpWork op;
  op.forward = {0, 3 * bytes, 0, 1};  // read for the moments, read again, write
  // x and dy are read for the sums and again for dx, which is written.
  if (gradients.of_inputs) op.input_grad = {0, 5 * bytes, 0, 1};
  if (gradients.of_weights && !gradients.of_inputs) op.weight_grad = {0, 2 * bytes, 0, 1};
  return op;
}

OpWork AttentionWork(const AttentionSizes& sizes, bool query_gradients, bool key_gradients) {
  const int64_t product = sizes.query_length * sizes.key_length * sizes.width;
  // The output is as large as the queries.
  const int64_t moved = 2 * sizes.query_bytes + sizes.key_bytes;
  OpWork op;
  op.op_class = OpClass::kAttention;
  op.head_size = sizes.head_size;
  op.forward = {2 * product, moved, 0, 1};
  if (query_gradients || key_gradients) {
    // q, k, v, y and dy are read; the required gradients are written.
    const int64_t written = sizes.query_bytes + (key_gradients ? sizes.key_bytes : 0);
    op.input_grad = {(key_gradients ? 5 : 3) * product, moved + sizes.query_bytes + written, 0, 2};
  }
  return op;
}

OpWork ElementwiseWork(int64_t read_bytes, int64_t written_bytes, int64_t gradient_bytes,
                       bool rereads) {
  OpWork op;
  op.forward = {0, read_bytes + written_bytes, 0, 1};
  if (gradient_bytes > 0) {
    op.input_grad = {0, (rereads ? read_bytes : 0) + written_bytes + gradient_bytes, 0, 1};
  }
  return op;
}

OpWork LookupWork(int64_t bytes, bool table_gradients) {
  OpWork op;
  op.forward = {0, 2 * bytes, 0, 1};
  if (table_gradients) op.weight_grad = op.forward;
  return op;
}

OpWork LossWork(int64_t read_bytes, int64_t kept_bytes, int64_t prediction_bytes) {
  OpWork op;
  op.forward = {0, read_bytes, 0, 2};
  op.input_grad = {0, kept_bytes + prediction_bytes, 0, 1};
  return op;
}

}  // namespace dpipe::roofline

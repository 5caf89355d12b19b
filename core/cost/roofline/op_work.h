// The work of one operation per sample: what a device's roofline (device_spec.h) turns into time.
// Numbers only; the nodes of a program (core/nn/node.h) describe their operations with it.
//
// Counting rules (activations are bf16, 2 bytes; parameters and their gradients fp32, 4 bytes):
// - a convolution or linear layer has as many multiply-adds in each gradient as in its forward
//   pass;
// - attention never stores its T x S scores: its backward pass recomputes them, with 5 matrix
//   products for the forward pass's 2 (3 if keys and values need no gradient);
// - normalization reads its input twice, and a SiLU after it is part of it; any other elementwise
//   operation reads its inputs and writes its output once;
// - a sum counts as one pass over memory, even if a convolution or linear layer adds it in its own
//   kernel: efficiencies are calibrated to measured layers with this rule. Its gradients count as
//   one pass over them, for adding up the gradients from its inputs' several readers.
#ifndef DPIPE_CORE_COST_ROOFLINE_OP_WORK_H_
#define DPIPE_CORE_COST_ROOFLINE_OP_WORK_H_

#include <cstdint>

namespace dpipe::roofline {

inline constexpr int kActivationBytes = 2;  // bf16
inline constexpr int kMasterBytes = 4;      // fp32

// The class of an operation, which selects the device's limit and efficiency.
enum class OpClass { kConvolution, kMatmul, kAttention, kMemory };

// One pass of one operation; it runs as `kernels` kernels (0: there is no such pass).
struct PassWork {
  int64_t macs = 0;         // multiply-adds per sample
  int64_t bytes = 0;        // activations read and written per sample
  int64_t fixed_bytes = 0;  // parameters and their gradients read and written, independent of the
                            // batch
  int kernels = 0;
};

struct OpWork {
  OpClass op_class = OpClass::kMemory;
  PassWork forward, input_grad, weight_grad;
  int64_t head_size = 0;  // channels per head of an attention
};

// The gradients that an operation computes.
struct Gradients {
  bool of_inputs = false;
  bool of_weights = false;
};

// A convolution or a linear layer.
struct ProductSizes {
  OpClass op_class = OpClass::kMatmul;  // kConvolution or kMatmul
  int64_t macs = 0;                     // of the forward pass, per sample
  int64_t input_bytes = 0, output_bytes = 0;
  int64_t weights = 0;  // elements
  bool has_bias = false;
};
OpWork ProductWork(const ProductSizes& product, Gradients gradients);

// A normalization of `bytes` per sample. Its weights' gradients are a by-product of its input's.
OpWork NormWork(int64_t bytes, Gradients gradients);

// Queries [query_length, width] attend to keys and values of `key_bytes` in all.
struct AttentionSizes {
  int64_t query_length = 0, key_length = 0, width = 0, head_size = 0;
  int64_t query_bytes = 0, key_bytes = 0;
};
OpWork AttentionWork(const AttentionSizes& sizes, bool query_gradients, bool key_gradients);

// Reads `read_bytes` and writes `written_bytes`. If `gradient_bytes` is not 0, the backward pass
// reads the output's gradient and, if `rereads`, the inputs, and writes that many.
OpWork ElementwiseWork(int64_t read_bytes, int64_t written_bytes, int64_t gradient_bytes,
                       bool rereads);

// Looks up rows of a table: `bytes` per sample in all.
OpWork LookupWork(int64_t bytes, bool table_gradients);

// One number per sample from `read_bytes`, in two kernels. The backward pass reads `kept_bytes` and
// writes the prediction's gradient.
OpWork LossWork(int64_t read_bytes, int64_t kept_bytes, int64_t prediction_bytes);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_OP_WORK_H_

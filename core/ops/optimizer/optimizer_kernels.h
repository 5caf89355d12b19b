// The implementations behind optimizer.cc. All tensors of a task are fp32 and of one shape.
#ifndef DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_KERNELS_H_
#define DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_KERNELS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/ops/optimizer/adamw_factors.h"
#include "core/ops/optimizer/block_quantized.h"
#include "core/ops/optimizer/optimizer.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

struct AdamWTask {
  AdamWFactors factors;
  Tensor grad, parameter, m, v;
};
struct AdamWInt8Task {
  AdamWFactors factors;
  Tensor grad, parameter;
  BlockQuantized *m, *root_v;
};

struct OptimizerKernels {
  void (*adamw_steps)(const std::vector<AdamWTask>& tasks);
  void (*adamw_predict)(const AdamWFactors& factors, absl::Span<const AdamWPrediction> predictions);
  void (*adamw_int8_steps)(const std::vector<AdamWInt8Task>& tasks);
  void (*sums_of_squares)(absl::Span<const Tensor> tensors, std::vector<double>* sums);
  void (*axpby)(float a, float b, absl::Span<const AxpbyPair> pairs);

  static const OptimizerKernels kReference, kCpu, kCuda;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_OPTIMIZER_OPTIMIZER_KERNELS_H_

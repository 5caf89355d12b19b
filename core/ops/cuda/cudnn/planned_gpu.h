// Plans of cuDNN for a GPU that is not present. They show if its engines support our graphs as soon
// as a plan is made, rather than when the graph first runs on such a GPU.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_PLANNED_GPU_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_PLANNED_GPU_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/ops/cuda/cudnn/cudnn_context.h"
#include "core/ops/cuda/cudnn/cudnn_ops.h"
#include "core/ops/cuda/cudnn/cudnn_plan.h"

namespace dpipe::ops::cuda {

class PlannedGpu {
 public:
  // `name` is "h200", "a100", "l40s" or "b200", of testdata/. Returns NotFound if cuDNN is missing.
  // From then on core/cuda/planning_driver.cc is this process's CUDA driver.
  static absl::StatusOr<PlannedGpu> Open(const std::string& name);

  absl::StatusOr<std::unique_ptr<CudnnPlan>> Plan(const CudnnContext::Describe& describe,
                                                  bool exact_fp32 = false) const;
  absl::StatusOr<CudnnEngines> EnginesFor(const CudnnContext::Describe& describe,
                                          bool exact_fp32 = false) const;
  // The plans that ops would use on this GPU.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> PlanAttention(const AttentionShape& shape) const;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> PlanAttentionGrad(const AttentionShape& shape) const;

 private:
  PlannedGpu(const CudnnApi& api, CudnnTarget target, int capability_major)
      : api_(&api), target_(std::move(target)), capability_major_(capability_major) {}

  const CudnnApi* api_;
  CudnnTarget target_;
  int capability_major_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_PLANNED_GPU_H_

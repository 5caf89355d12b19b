#include "core/ops/cuda/cudnn/planned_gpu.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/ops/cuda/cudnn/cudnn_graphs.h"
#include "nlohmann/json.hpp"

namespace dpipe::ops::cuda {

absl::StatusOr<PlannedGpu> PlannedGpu::Open(const std::string& name) {
  static void* const driver = dlopen("core/cuda/planning_driver.so", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return absl::InternalError(dlerror());
  DPIPE_ASSIGN_OR_RETURN(const CudnnApi* api, LoadCudnn());
  DPIPE_ASSIGN_OR_RETURN(const std::string json,
                         ReadFile(absl::StrCat("core/ops/cuda/cudnn/testdata/", name, ".json")));
  DPIPE_ASSIGN_OR_RETURN(CudnnTarget target, CudnnTarget::WithProperties(*api, json));
  // Compute capability 8.9 is 890.
  const int version = nlohmann::json::parse(json).value("deviceVer", 0);
  return PlannedGpu(*api, std::move(target), version / 100);
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> PlannedGpu::Plan(const CudnnContext::Describe& describe,
                                                            bool exact_fp32) const {
  auto graph = std::make_unique<CudnnGraph>(*api_);
  describe(graph.get());
  return CudnnPlan::Create(target_, std::move(graph), exact_fp32);
}

absl::StatusOr<CudnnEngines> PlannedGpu::EnginesFor(const CudnnContext::Describe& describe,
                                                    bool exact_fp32) const {
  auto graph = std::make_unique<CudnnGraph>(*api_);
  describe(graph.get());
  return CudnnEngines::For(target_, std::move(graph), exact_fp32);
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> PlannedGpu::PlanAttention(
    const AttentionShape& shape) const {
  DPIPE_RETURN_IF_ERROR(CheckAttention(shape));
  return Plan([&](CudnnGraph* graph) { DescribeAttention(shape, graph); });
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> PlannedGpu::PlanAttentionGrad(
    const AttentionShape& shape) const {
  DPIPE_RETURN_IF_ERROR(CheckAttentionGrad(shape, capability_major_));
  return Plan([&](CudnnGraph* graph) { DescribeAttentionGrad(shape, capability_major_, graph); });
}

}  // namespace dpipe::ops::cuda

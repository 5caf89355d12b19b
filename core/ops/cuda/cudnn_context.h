// cuDNN on a device: its handle, and its plans.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CONTEXT_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CONTEXT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ops/cuda/cudnn_plan.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// cuDNN on one device: a handle, and a plan for each graph that was asked for, or the reason why
// there is none.
class CudnnContext {
 public:
  using Key = std::array<int64_t, 24>;
  using Describe = std::function<void(CudnnGraph* graph)>;

  // The device's. NotFound where the library is missing.
  static absl::StatusOr<CudnnContext*> Of(Device& device);
  ~CudnnContext();

  // The plan for what `describe` adds to an empty graph, which depends on `key` alone; `operation`
  // and the tensors that it is first met with are for EngineChoices.
  absl::StatusOr<const CudnnPlan*> PlanFor(const Key& key, bool exact_fp32,
                                           const Describe& describe, const std::string& operation,
                                           const std::shared_ptr<Device>& device,
                                           const std::vector<std::pair<int64_t, void*>>& memory);
  // From now on PlanFor has this error for the key, and drops the plan.
  void Refuse(const Key& key, const absl::Status& why) { plans_.insert_or_assign(key, why); }
  cudnnHandle_t handle() const { return handle_; }

 private:
  CudnnContext(const CudnnApi& api, cudnnHandle_t handle, std::string device_text,
               std::string library_text)
      : api_(api),
        handle_(handle),
        device_text_(std::move(device_text)),
        library_text_(std::move(library_text)) {}
  static absl::StatusOr<std::unique_ptr<CudnnContext>> Create(
      const dpipe::cuda::CudaDevice& device);
  absl::StatusOr<CudnnEngines> EnginesFor(bool exact_fp32, const Describe& describe) const;

  const CudnnApi& api_;
  const cudnnHandle_t handle_;
  const std::string device_text_, library_text_;
  std::map<Key, absl::StatusOr<std::unique_ptr<CudnnPlan>>> plans_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CONTEXT_H_

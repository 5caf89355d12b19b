// cuDNN on a device: its handle and its plans.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_CONTEXT_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_CONTEXT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ops/cuda/cudnn/cudnn_plan.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// cuDNN on one device: a handle and, per requested graph, a plan or the reason why there is none.
class CudnnContext {
 public:
  using Key = std::array<int64_t, 24>;
  using Describe = std::function<void(CudnnGraph* graph)>;

  // Returns the device's context. NotFound if the library is missing.
  static absl::StatusOr<CudnnContext*> Of(Device& device);
  ~CudnnContext();

  // Returns the plan for the operations that `describe` adds to an empty graph; they must depend
  // only on `key`. EngineChoices uses `operation`, and times engines with the tensors of the first
  // call.
  absl::StatusOr<const CudnnPlan*> PlanFor(const Key& key, bool exact_fp32,
                                           const Describe& describe, const std::string& operation,
                                           const std::shared_ptr<Device>& device,
                                           const std::vector<std::pair<int64_t, void*>>& memory);
  // Makes PlanFor return this error for the key from now on, and drops the plan.
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

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_CONTEXT_H_

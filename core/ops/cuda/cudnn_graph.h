// cuDNN's graph API: graphs of operations, from their description to a plan that runs.
//
// A graph is made of descriptors. The library's heuristics name engines for it, best first; the
// first one that is deterministic, of the accuracy asked for, and supported becomes the plan.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/cuda/cudnn_api.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// A descriptor that is being described. The first error is kept and returned by Finalize, after
// which it is constant. Those that it refers to must outlive it.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type);

  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       const void* values, int64_t count = 1);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, int64_t value);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, bool value);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  absl::Status Finalize();

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  void Keep(cudnnStatus_t status, const char* call, int attribute);

  const CudnnApi* api_;
  std::shared_ptr<void> descriptor_;
  absl::Status status_;
};

cudnnDataType_t CudnnType(DType dtype);

// A tensor of a graph, four dimensions with their strides in elements.
struct CudnnTensor {
  int64_t id;  // by which it is given its memory
  std::vector<int64_t> sizes, strides;
  DType dtype;
  enum class Place { kMemory, kBetweenOperations, kByValue } place = Place::kMemory;
};

// A graph under construction: owns its descriptors.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}

  absl::StatusOr<const CudnnDescriptor*> AddTensor(const CudnnTensor& tensor);
  // A descriptor that is no operation, and one that is; to be set, and finalized with Finish.
  CudnnDescriptor* Add(cudnnBackendDescriptorType_t type);
  CudnnDescriptor* AddOperation(cudnnBackendDescriptorType_t type);

  const CudnnApi& api() const { return api_; }
  const std::vector<const CudnnDescriptor*>& operations() const { return operations_; }

 private:
  const CudnnApi& api_;
  std::vector<std::unique_ptr<CudnnDescriptor>> descriptors_;
  std::vector<const CudnnDescriptor*> operations_;
};

struct CudnnPlanOptions {
  bool exact_fp32 = false;  // no engine that rounds fp32 inputs
  int multiprocessors = 0;  // of a share of the GPU; 0: all
};

class CudnnPlan {
 public:
  // Unimplemented where no engine does what is asked for, naming the last one's reason.
  static absl::StatusOr<std::unique_ptr<CudnnPlan>> Create(cudnnHandle_t handle,
                                                           std::unique_ptr<CudnnGraph> graph,
                                                           const CudnnPlanOptions& options);

  // Enqueues on the handle's stream; `memory` by tensor id.
  absl::Status Run(cudnnHandle_t handle, const std::shared_ptr<Device>& device,
                   const std::vector<std::pair<int64_t, void*>>& memory) const;

 private:
  CudnnPlan(std::unique_ptr<CudnnGraph> graph) : graph_(std::move(graph)) {}
  absl::Status Choose(cudnnHandle_t handle, const CudnnPlanOptions& options);
  absl::Status Try(cudnnHandle_t handle, std::unique_ptr<CudnnDescriptor> config,
                   const CudnnPlanOptions& options);

  const std::unique_ptr<CudnnGraph> graph_;
  std::unique_ptr<CudnnDescriptor> operation_graph_, config_, plan_;
  int64_t workspace_bytes_ = 0;
};

// cuDNN on one device: a handle, and a plan for each graph that was asked for, or the reason why
// there is none.
class CudnnContext {
 public:
  using Key = std::array<int64_t, 24>;
  using Describe = std::function<absl::Status(CudnnGraph* graph)>;

  // The device's. NotFound where the library is missing.
  static absl::StatusOr<CudnnContext*> Of(Device& device);
  ~CudnnContext();

  // The plan for what `describe` adds to an empty graph, which depends on `key` alone.
  absl::StatusOr<const CudnnPlan*> PlanFor(const Key& key, bool exact_fp32,
                                           const Describe& describe);
  cudnnHandle_t handle() const { return handle_; }

 private:
  CudnnContext(const CudnnApi& api, cudnnHandle_t handle, int multiprocessors)
      : api_(api), handle_(handle), multiprocessors_(multiprocessors) {}
  static absl::StatusOr<std::unique_ptr<CudnnContext>> Create(
      const dpipe::cuda::CudaDevice& device);
  absl::StatusOr<std::unique_ptr<CudnnPlan>> MakePlan(bool exact_fp32, const Describe& describe);

  const CudnnApi& api_;
  const cudnnHandle_t handle_;
  const int multiprocessors_;
  std::map<Key, absl::StatusOr<std::unique_ptr<CudnnPlan>>> plans_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_

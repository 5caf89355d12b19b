// cuDNN's graph API: graphs of operations, made of descriptors, and their target GPUs. cudnn_plan.h
// runs them.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPH_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/cuda/cudnn_api.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// Returns Unimplemented if cuDNN does not support the call, Internal for other errors; both name
// the call. `describing` is true if the call describes a graph or a plan. A version of cuDNN then
// rejects unknown features as bad parameters too, which also gives Unimplemented.
absl::Status CudnnStatus(const CudnnApi& api, cudnnStatus_t status, absl::string_view call,
                         bool describing = false);

// 91501 as "9.15.1".
std::string CudnnVersionText(size_t version);

// A descriptor under construction; constant after Finalize, which returns the first error. The
// error is Unimplemented for features that this version of cuDNN does not know or support.
// Descriptors that it refers to must outlive it.
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
  bool is_of_run_;  // and not of a graph: a rejection is our mistake
  std::shared_ptr<void> descriptor_;
  absl::Status status_;
};

cudnnDataType_t CudnnType(DType dtype);

// A tensor of a graph: four dimensions with their strides in elements.
struct CudnnTensor {
  int64_t id;  // identifies the tensor when memory is assigned
  std::vector<int64_t> sizes, strides;
  DType dtype;
  enum class Place { kMemory, kBetweenOperations, kByValue } place = Place::kMemory;
};

// A graph under construction. Owns its descriptors and keeps their first error.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}

  const CudnnDescriptor& AddTensor(const CudnnTensor& tensor);
  // Add a descriptor: a plain one, or an operation. Set its attributes, then pass it to Finish.
  CudnnDescriptor& Add(cudnnBackendDescriptorType_t type);
  CudnnDescriptor& AddOperation(cudnnBackendDescriptorType_t type);
  const CudnnDescriptor& Finish(CudnnDescriptor& descriptor);
  // Fails with Unimplemented if cuDNN is older than `version`: 91300 for 9.13.
  void Require(size_t version);
  // Excludes engines that need more workspace than this.
  void LimitWorkspace(int64_t bytes) { most_workspace_bytes_ = bytes; }
  // Also allows engines whose order of additions varies from run to run.
  void AllowNondeterminism() { nondeterministic_ = true; }

  const CudnnApi& api() const { return api_; }
  const absl::Status& status() const { return status_; }
  const std::vector<const CudnnDescriptor*>& operations() const { return operations_; }
  int64_t max_workspace_bytes() const { return most_workspace_bytes_; }
  bool nondeterministic() const { return nondeterministic_; }

 private:
  const CudnnApi& api_;
  std::vector<std::unique_ptr<CudnnDescriptor>> descriptors_;
  std::vector<const CudnnDescriptor*> operations_;
  int64_t most_workspace_bytes_ = std::numeric_limits<int64_t>::max();
  bool nondeterministic_ = false;
  absl::Status status_;
};

// The target of a plan: a handle's GPU, or a GPU known only by its properties, in cuDNN's JSON. In
// the latter case the plan can be created but not run.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  static absl::StatusOr<CudnnTarget> WithProperties(const CudnnApi& api, const std::string& json);

  cudnnHandle_t handle() const { return handle_; }  // may be null
  const CudnnDescriptor* properties() const { return properties_.get(); }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<const CudnnDescriptor> properties_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPH_H_

// cuDNN's graph API: graphs of operations, from their description to a plan that runs.
//
// A graph is made of descriptors. The library's heuristics name engines for it, best first; one
// that is deterministic, of the accuracy asked for, and supported becomes the plan: the first, or
// one that was chosen by time (engine_choices.h). A plan can be made where there is no GPU, for one
// whose properties are known.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/cuda/cudnn_api.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// A descriptor that is being described. The first error is kept and returned by Finalize, after
// which it is constant: Unimplemented for what this version of cuDNN does not know or support.
// Those that it refers to must outlive it.
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
  bool is_of_run_;  // and not of a graph: what is refused is our mistake
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

// A graph under construction: owns its descriptors, and keeps their first error.
class CudnnGraph {
 public:
  explicit CudnnGraph(const CudnnApi& api) : api_(api) {}

  const CudnnDescriptor& AddTensor(const CudnnTensor& tensor);
  // A descriptor that is no operation, and one that is; to be set, and then finished.
  CudnnDescriptor& Add(cudnnBackendDescriptorType_t type);
  CudnnDescriptor& AddOperation(cudnnBackendDescriptorType_t type);
  const CudnnDescriptor& Finish(CudnnDescriptor& descriptor);
  // Unimplemented by cuDNN before `version`, 91300 for 9.13.
  void Require(size_t version);
  // By no engine that needs more memory than that besides its tensors.
  void LimitWorkspace(int64_t bytes) { most_workspace_bytes_ = bytes; }
  // Also by an engine that adds in an order that varies from run to run.
  void AllowAnyOrder() { any_order_ = true; }

  const CudnnApi& api() const { return api_; }
  const absl::Status& status() const { return status_; }
  const std::vector<const CudnnDescriptor*>& operations() const { return operations_; }
  int64_t most_workspace_bytes() const { return most_workspace_bytes_; }
  bool any_order() const { return any_order_; }

 private:
  const CudnnApi& api_;
  std::vector<std::unique_ptr<CudnnDescriptor>> descriptors_;
  std::vector<const CudnnDescriptor*> operations_;
  int64_t most_workspace_bytes_ = std::numeric_limits<int64_t>::max();
  bool any_order_ = false;
  absl::Status status_;
};

// Where a plan is to run: on a handle's GPU, or on one of which there are only the properties, in
// cuDNN's JSON; such a plan is made, but cannot run.
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

// A graph with an engine that runs it. On a share of a GPU plans are those of the whole: engines
// refuse to be told of fewer multiprocessors.
class CudnnPlan {
 public:
  // By the first engine that does it. exact_fp32: by no engine that rounds fp32 inputs, or trades
  // accuracy for fewer multiplications. Unimplemented where no engine does what is asked for,
  // naming the last one's reason.
  static absl::StatusOr<std::unique_ptr<CudnnPlan>> Create(const CudnnTarget& target,
                                                           std::unique_ptr<CudnnGraph> graph,
                                                           bool exact_fp32);

  // The engine's number and how it is set, each setting's type and value: "65, 2:1 13:1 18:1".
  const std::string& engine() const { return engine_; }
  // Memory that a run takes besides its tensors, in bytes.
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues on the handle's stream; `memory` by tensor id.
  absl::Status Run(cudnnHandle_t handle, const std::shared_ptr<Device>& device,
                   const std::vector<std::pair<int64_t, void*>>& memory) const;

 private:
  friend class CudnnEngines;
  CudnnPlan() = default;

  std::shared_ptr<const CudnnGraph> graph_;
  std::shared_ptr<const CudnnDescriptor> operation_graph_;
  std::unique_ptr<CudnnDescriptor> config_, plan_;
  std::string engine_;
  int64_t workspace_bytes_ = 0;
};

// The engines for a graph, best first as the library's heuristics have it.
class CudnnEngines {
 public:
  static absl::StatusOr<CudnnEngines> For(const CudnnTarget& target,
                                          std::unique_ptr<CudnnGraph> graph, bool exact_fp32);

  // A plan by the next engine that does what is asked for, of that name unless it is empty.
  // Unimplemented after the last one, with the reason of that one; an error that is no refusal
  // (memory that is full, a GPU that has failed) where there was one and no plan.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Next(const std::string& name = "");
  // Plans by at most `most` of the engines that follow, which need no compiling and no more
  // workspace than that.
  std::vector<std::unique_ptr<CudnnPlan>> NextQuick(int most, int64_t most_workspace_bytes);

 private:
  CudnnEngines(const CudnnTarget& target, std::shared_ptr<const CudnnGraph> graph,
               std::shared_ptr<const CudnnDescriptor> operation_graph, bool exact_fp32)
      : target_(target),
        graph_(std::move(graph)),
        operation_graph_(std::move(operation_graph)),
        exact_fp32_(exact_fp32) {}

  struct Notes;
  // What the next mode of the heuristics names; false after the last.
  bool Fill();
  absl::StatusOr<std::string> NameOf(const CudnnDescriptor& config, Notes* notes) const;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Make(std::unique_ptr<CudnnDescriptor> config,
                                                  const std::string& name) const;
  // quick: by none that is compiled when its plan is made.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Next(const std::string& name, bool quick);
  void Keep(const absl::Status& refused);

  CudnnTarget target_;
  std::shared_ptr<const CudnnGraph> graph_;
  std::shared_ptr<const CudnnDescriptor> operation_graph_;
  bool exact_fp32_;
  size_t next_mode_ = 0;
  std::deque<std::unique_ptr<CudnnDescriptor>> configs_;
  absl::Status refusal_ = absl::UnimplementedError("cuDNN's heuristics name no engine");
  absl::Status error_;
};

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

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_GRAPH_H_

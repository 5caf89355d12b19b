// Passes without gradients, on any device, for callers whose tensors are in host memory.
#ifndef DPIPE_CORE_NN_INFERENCE_H_
#define DPIPE_CORE_NN_INFERENCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/nn/execution.h"
#include "core/nn/parameters.h"

namespace dpipe::nn {

// A parameter set in host memory, with copies on the devices that have their own memory. A copy is
// made before the first pass on its device and lives as long as this object. Thread-safe.
class Inference {
 public:
  // `parameters` must not change. They must outlive this object, or it owns them.
  explicit Inference(const ParameterSet* parameters) : parameters_(parameters) {}
  explicit Inference(std::unique_ptr<ParameterSet> parameters)
      : own_(std::move(parameters)), parameters_(own_.get()) {}

  // Runs nn::Forward on `device` and returns its errors; called from the device's worker thread.
  // `values` are in host memory before and after.
  absl::Status Forward(const Program& program, LayerRange range,
                       const std::shared_ptr<Device>& device, const RunOptions& options,
                       ValueMap* values);

 private:
  const ParameterSet& On(const std::shared_ptr<Device>& device);

  const std::unique_ptr<ParameterSet> own_;  // null if another object owns the parameters
  const ParameterSet* const parameters_;
  absl::Mutex mutex_;
  std::map<const Device*, std::unique_ptr<ParameterSet>> copies_ ABSL_GUARDED_BY(mutex_);
};

// Returns an upper bound on the device memory of such passes over some layers: parameters with
// their prepared forms, and values. Memory that kernels allocate for themselves is not included.
int64_t InferenceBytes(const Program& program, LayerRange range, int64_t batch,
                       DType compute_dtype);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_INFERENCE_H_

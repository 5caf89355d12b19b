// Passes without gradients, on any device, for callers whose tensors are in the host's memory.
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

// A set of parameters in the host's memory, and copies of it on the devices that have their own:
// made when a pass first runs there, and kept as long as this lives. Thread-safe.
class Inference {
 public:
  // `parameters` do not change, and outlive it or are its own.
  explicit Inference(const ParameterSet* parameters) : parameters_(parameters) {}
  explicit Inference(std::unique_ptr<ParameterSet> parameters)
      : own_(std::move(parameters)), parameters_(own_.get()) {}

  // nn::Forward on `device`, by its worker's thread, with its errors. `values` are tensors of the
  // host before and after.
  absl::Status Forward(const Program& program, LayerRange range,
                       const std::shared_ptr<Device>& device, const RunOptions& options,
                       ValueMap* values);

 private:
  const ParameterSet& On(const std::shared_ptr<Device>& device);

  const std::unique_ptr<ParameterSet> own_;  // null: another's
  const ParameterSet* const parameters_;
  absl::Mutex mutex_;
  std::map<const Device*, std::unique_ptr<ParameterSet>> copies_ ABSL_GUARDED_BY(mutex_);
};

// An upper bound of the device memory that such passes over some layers take: parameters, with what
// is made of them for the kernels, and values, but not what kernels take for themselves.
int64_t InferenceBytes(const Program& program, LayerRange range, int64_t batch,
                       DType compute_dtype);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_INFERENCE_H_

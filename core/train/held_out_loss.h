// The loss on samples that are not trained on, at fixed timesteps and with fixed noise. These
// numbers are comparable between evaluations. The training loss is not, because the difficulty of
// its timesteps differs by a factor of ten from step to step.
#ifndef DPIPE_CORE_TRAIN_HELD_OUT_LOSS_H_
#define DPIPE_CORE_TRAIN_HELD_OUT_LOSS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/nn/inference.h"
#include "core/nn/model.h"
#include "core/runtime/input_provider.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

struct HeldOutLossOptions {
  const nn::Model* model = nullptr;
  std::vector<const nn::ParameterSet*> frozen_parameters;  // by component; null for backbones
  // One per quantile of the timesteps. Each provides samples [0, num_samples) of step 0 with the
  // timesteps of its quantile, and is otherwise the same as the others. Must outlive the
  // HeldOutLoss.
  std::vector<InputProvider*> inputs;
  int num_samples = 0;
  int batch = 4;  // samples per pass through the model; results depend on it to rounding
  DType compute_dtype = DType::kF32;
  // Outputs of frozen components are cached up to this size for later evaluations.
  int64_t cache_bytes = kGiB;
};

struct HeldOutLosses {
  // Means over the samples; the sum of these for several backbones.
  std::vector<double> by_quantile;
  double mean = 0;  // of by_quantile
};

class HeldOutLoss {
 public:
  // Returns InvalidArgument if there are no samples or inputs.
  static absl::StatusOr<std::unique_ptr<HeldOutLoss>> Create(const HeldOutLossOptions& options);

  // Evaluates with these parameters of the backbones, which are copied. Batches are distributed
  // over the workers, or over the CPU's cores if GPUs have no room left; the numbers do not depend
  // on the number of workers. `on_progress` is called by one thread. `should_stop` is called
  // repeatedly by all threads; if it returns true, the evaluation ends with Cancelled.
  absl::StatusOr<HeldOutLosses> Evaluate(
      const std::map<std::string, Tensor>& parameters, const std::vector<DeviceWorker*>& workers,
      const std::function<void(double share_done)>& on_progress = nullptr,
      const std::function<bool()>& should_stop = nullptr);

 private:
  // Outputs that feed other components, by component and name.
  using Outputs = std::map<std::pair<std::string, std::string>, Tensor>;
  using Backbones = std::vector<std::unique_ptr<nn::ParameterSet>>;  // in the model's order
  using Passes = std::vector<std::unique_ptr<nn::Inference>>;        // by component

  explicit HeldOutLoss(const HeldOutLossOptions& options);
  absl::StatusOr<Backbones> LoadBackbones(const std::map<std::string, Tensor>& parameters) const;
  // Returns the memory needed on a device that runs the passes.
  int64_t DeviceBytes() const;
  // Computes the losses of a batch. `losses`: by quantile, one per sample of the batch.
  absl::Status EvaluateBatch(int batch, const Passes& passes, const std::shared_ptr<Device>& device,
                             const std::function<bool()>& should_stop,
                             std::vector<std::vector<double>>* losses);
  // Runs those frozen components that depend on the quantile (`timed`), or those that do not.
  absl::Status RunFrozen(const Passes& passes, SampleRange samples, int quantile, bool timed,
                         const std::shared_ptr<Device>& device, Outputs* outputs) const;
  absl::StatusOr<std::vector<float>> RunBackbone(const nn::Component& backbone,
                                                 nn::Inference* passes, SampleRange samples,
                                                 int quantile,
                                                 const std::shared_ptr<Device>& device,
                                                 const Outputs& outputs) const;
  // Returns the inputs on the host.
  absl::StatusOr<nn::ValueMap> InputsOf(const nn::Component& component, SampleRange samples,
                                        int quantile, const std::shared_ptr<Device>& device,
                                        const Outputs& outputs) const;

  const HeldOutLossOptions options_;
  std::vector<bool> timed_;  // by component: true if it depends on the timesteps
  absl::Mutex mutex_;
  std::map<int, Outputs> cache_ ABSL_GUARDED_BY(mutex_);  // by batch
  int64_t cached_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_HELD_OUT_LOSS_H_

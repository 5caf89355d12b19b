// The loss on samples that are not trained on, at fixed timesteps and with fixed noise: numbers
// that can be compared from one evaluation to the next, as the training loss cannot, whose
// timesteps differ by a factor of ten in difficulty from step to step.
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
  // One for each quantile of the timesteps. Each gives samples [0, num_samples) of step 0 with the
  // timesteps of its quantile, and is like the others in everything else. Outlive what uses this.
  std::vector<InputProvider*> inputs;
  int num_samples = 0;
  int batch = 4;  // samples that go through the model together; results depend on it to rounding
  DType compute_dtype = DType::kF32;
  // What frozen components gave for a batch is kept up to so many bytes for the evaluations after.
  int64_t cache_bytes = kGiB;
};

struct HeldOutLosses {
  std::vector<double> by_quantile;  // means over the samples; of several backbones, the sum
  double mean = 0;                  // of them
};

class HeldOutLoss {
 public:
  // InvalidArgument where there are no samples or inputs.
  static absl::StatusOr<std::unique_ptr<HeldOutLoss>> Create(const HeldOutLossOptions& options);

  // With these parameters of the backbones, which are copied. Batches are spread over the workers,
  // or over the CPU's cores where GPUs have no room left; the numbers do not depend on how many
  // there are. `on_progress` is called by one thread; `should_stop`, asked by all of them again and
  // again, ends the evaluation with Cancelled.
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
  // Of a device that runs the passes.
  int64_t DeviceBytes() const;
  // `losses`: by quantile, one a sample of the batch.
  absl::Status EvaluateBatch(int batch, const Passes& passes, const std::shared_ptr<Device>& device,
                             const std::function<bool()>& should_stop,
                             std::vector<std::vector<double>>* losses);
  // The frozen components that `timed` says, of which only those depend on the quantile.
  absl::Status RunFrozen(const Passes& passes, SampleRange samples, int quantile, bool timed,
                         const std::shared_ptr<Device>& device, Outputs* outputs) const;
  absl::StatusOr<std::vector<float>> RunBackbone(const nn::Component& backbone,
                                                 nn::Inference* passes, SampleRange samples,
                                                 int quantile,
                                                 const std::shared_ptr<Device>& device,
                                                 const Outputs& outputs) const;
  // On the host.
  absl::StatusOr<nn::ValueMap> InputsOf(const nn::Component& component, SampleRange samples,
                                        int quantile, const std::shared_ptr<Device>& device,
                                        const Outputs& outputs) const;

  const HeldOutLossOptions options_;
  std::vector<bool> timed_;  // by component: whether it depends on the timesteps
  absl::Mutex mutex_;
  std::map<int, Outputs> cache_ ABSL_GUARDED_BY(mutex_);  // by batch
  int64_t cached_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_HELD_OUT_LOSS_H_

// Evaluates a run's weights on its held-out samples.
#ifndef DPIPE_TOOLS_TRAINING_EVALUATOR_H_
#define DPIPE_TOOLS_TRAINING_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/held_out_loss.h"
#include "models/trainable/training_setup.h"
#include "tools/run_logs/training_observer.h"
#include "tools/run_logs/training_progress.h"

namespace dpipe::tools {

class Evaluator {
 public:
  // `setup` must have held-out samples, and outlives this. `quantiles` are those of the timesteps,
  // each in [0, 1).
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(models::TrainingSetup* setup,
                                                           const std::vector<double>& quantiles);

  // Returns the held-out losses of `weights`, and reports them to `observer`. `name` says which
  // weights these are. Returns Cancelled if `task` asks to stop.
  absl::StatusOr<EvaluationReport> Evaluate(const models::NamedTensors& weights,
                                            const std::string& name, int64_t step, double epoch,
                                            LongTask* task, TrainingObserver* observer);

 private:
  Evaluator() = default;

  models::TrainingSetup* setup_ = nullptr;
  std::vector<double> quantiles_;
  std::vector<std::unique_ptr<InputProvider>> inputs_;  // one per quantile
  std::unique_ptr<HeldOutLoss> loss_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_EVALUATOR_H_

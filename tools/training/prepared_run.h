// The preparation of a training run up to its first step. Training and `--check` share it, so a
// check fails whenever the run itself would.
#ifndef DPIPE_TOOLS_TRAINING_PREPARED_RUN_H_
#define DPIPE_TOOLS_TRAINING_PREPARED_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/files/write_place.h"
#include "core/base/status.h"
#include "tools/training/best_model.h"
#include "tools/training/disk_needs.h"
#include "tools/training/evaluator.h"
#include "tools/training/training_options.h"
#include "tools/training/training_run.h"

namespace dpipe::tools {

// In a run of several processes, only process 0 has one.
class PreparedRun {
 public:
  // Creates the run with its session and, if it resumes, the state of its checkpoint. Creates the
  // evaluator, and checks that outputs can be written and have room. `say` gets a few permanent
  // lines; progress goes to standard error. Files of an earlier run are not changed; with
  // options.check_only no file is. `options` outlive this.
  static absl::StatusOr<std::unique_ptr<PreparedRun>> Create(
      const TrainerOptions& options, const std::function<void(const std::string&)>& say);

  TrainingRun& run() { return *run_; }
  const TrainingRun& run() const { return *run_; }
  Evaluator* evaluator() { return evaluator_.get(); }  // null if there are no held-out samples
  // Null if the best model is not kept.
  BestModel* best() { return best_.has_value() ? &*best_ : nullptr; }
  const DiskNeeds& disk_needs() const { return disk_needs_; }
  const WritePlace& place() const { return place_; }  // location of the model's folder

 private:
  PreparedRun() = default;

  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<BestModel> best_;
  DiskNeeds disk_needs_;
  WritePlace place_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_PREPARED_RUN_H_

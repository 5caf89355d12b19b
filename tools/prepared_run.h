// All that a training run does before its first step, once, for the run itself and for a check of
// it: so whatever would refuse the run refuses the check, too.
#ifndef DPIPE_TOOLS_PREPARED_RUN_H_
#define DPIPE_TOOLS_PREPARED_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/base/write_place.h"
#include "tools/best_model.h"
#include "tools/disk_needs.h"
#include "tools/evaluator.h"
#include "tools/training_options.h"
#include "tools/training_run.h"

namespace dpipe::tools {

// Of several processes, the first's.
class PreparedRun {
 public:
  // Puts the run together, with its session and the state that it goes on from, makes the
  // evaluator, and sees whether outputs can be written and have room. `say` gets a few lines that
  // stay; progress goes to standard error. Nothing of an earlier run is touched yet; with
  // options.check_only no file is. `options` outlive this.
  static absl::StatusOr<std::unique_ptr<PreparedRun>> Create(
      const TrainerOptions& options, const std::function<void(const std::string&)>& say);

  TrainingRun& run() { return *run_; }
  const TrainingRun& run() const { return *run_; }
  Evaluator* evaluator() { return evaluator_.get(); }  // null where nothing is held out
  // Null where the best model is not kept.
  BestModel* best() { return best_.has_value() ? &*best_ : nullptr; }
  const DiskNeeds& disk_needs() const { return disk_needs_; }
  const WritePlace& place() const { return place_; }  // of the model's folder

 private:
  PreparedRun() = default;

  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<BestModel> best_;
  DiskNeeds disk_needs_;
  WritePlace place_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PREPARED_RUN_H_

#include "tools/training/prepared_run.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/count.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/time.h"
#include "core/report/progress.h"
#include "data/outputs_apart.h"
#include "tools/training/run_folder.h"
#include "tools/training/set_aside.h"
#include "tools/training/trained_model.h"

namespace dpipe::tools {
namespace {

absl::Status CheckLength(const TrainerOptions& options) {
  if (options.num_steps >= 0 && options.time_limit_ns >= 0 &&
      (options.num_steps > 0 || options.time_limit_ns > 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("training needs a number of steps (",
                                                 options.num_steps, ") or a time limit (",
                                                 FormatDuration(options.time_limit_ns), ")"));
}

// Checks that no output is inside the data that the run reads, and that the log and the cache are
// not inside the model's folder, which each save replaces as a whole.
absl::Status CheckOutputsApart(const TrainerOptions& options) {
  const models::TrainingDataOptions& data = options.setup.data;
  const NamedPath read[] = {{"--data=", data.folder}, {"--evaluation.data=", data.held_out_folder}};
  const NamedPath kept[] = {{"--log=", options.log_path},
                            {"--data.cache=", options.setup.cache_folder}};
  for (const NamedPath& source : read) {
    DPIPE_RETURN_IF_ERROR(CheckNotInData({"--out=", options.out}, source));
    for (const NamedPath& path : kept) DPIPE_RETURN_IF_ERROR(CheckNotInData(path, source));
    for (const std::string& place : PlacesOfRun(options.out, options.log_path)) {
      DPIPE_RETURN_IF_ERROR(CheckNotInData({"the run's output ", place}, source));
      DPIPE_RETURN_IF_ERROR(CheckHasNoData({"the run's output ", place}, source));
    }
  }
  for (const NamedPath& path : kept) {
    if (path.path.empty() || !IsWithin(path.path, options.model_out)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path.name, path.path, " is inside ", options.model_out,
                     ", which is replaced as a whole; choose a path outside it"));
  }
  return absl::OkStatus();
}

// Checks all outputs and creates the run's folder. Returns the location of the model's folder: all
// outputs but a log elsewhere are on its file system.
absl::StatusOr<WritePlace> CheckOutputs(const TrainerOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckOutputsApart(options));
  DPIPE_RETURN_IF_ERROR(CheckDoesNotReplaceModel(options.model_out, options.setup.model_folder));
  // An earlier run may have left this folder; it is set aside even if this run keeps no best model.
  DPIPE_RETURN_IF_ERROR(CheckDoesNotReplaceModel(options.best_out, options.setup.model_folder));
  DPIPE_RETURN_IF_ERROR(CheckIsRunFolder(options.out));
  DPIPE_RETURN_IF_ERROR(CheckWritable(options.model_out));
  if (!options.check_only) DPIPE_RETURN_IF_ERROR(MakeFolder(options.out));
  // Existing paths are written to as they are, for example /dev/null.
  std::error_code error;
  for (const std::string& path : {options.log_path, options.setup.cache_folder}) {
    if (path.empty() || std::filesystem::exists(path, error)) continue;
    DPIPE_RETURN_IF_ERROR(FindWritePlace(path).status());
  }
  return FindWritePlace(options.model_out);
}

// Removes the folder at the end of its scope, if it did not exist before and is empty: a run that
// fails to start leaves nothing.
class RemoveIfEmpty {
 public:
  explicit RemoveIfEmpty(const std::string& folder) : folder_(folder), existed_(IsFolder(folder)) {}
  ~RemoveIfEmpty() {
    std::error_code error;
    if (!existed_) std::filesystem::remove(folder_, error);  // fails if there is anything in it
  }
  RemoveIfEmpty(const RemoveIfEmpty&) = delete;
  RemoveIfEmpty& operator=(const RemoveIfEmpty&) = delete;

 private:
  const std::string folder_;
  const bool existed_;
};

// Returns a description of how held-out losses are measured.
std::string MeasureText(models::TrainingSetup* setup, const TrainerOptions& options) {
  return absl::StrCat(Count(setup->held_out()->options().global_batch, "sample"),
                      " at the timesteps' quantiles ",
                      absl::StrJoin(options.evaluation_quantiles, ", "));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedRun>> PreparedRun::Create(
    const TrainerOptions& options, const std::function<void(const std::string&)>& say) {
  DPIPE_RETURN_IF_ERROR(CheckLength(options));
  const RemoveIfEmpty out_of_failed_start(options.out);
  auto prepared = std::unique_ptr<PreparedRun>(new PreparedRun());
  DPIPE_ASSIGN_OR_RETURN(prepared->place_, CheckOutputs(options));
  report::Progress progress(report::StandardErrorProgress("train"));
  const auto show = [&progress](const std::string& phase, double done) {
    report::ProgressState state;
    state.phase = phase;
    state.fraction_done = done;
    progress.Update(state);
  };
  const auto say_below = [&](const std::string& line) {
    progress.Finish();
    say(line);
  };
  DPIPE_ASSIGN_OR_RETURN(prepared->run_, TrainingRun::Create(options, say_below, show));
  TrainingRun& run = *prepared->run_;
  run.checkpoints().SetSay(say);
  prepared->disk_needs_ = DiskNeedsOf(run);
  DPIPE_RETURN_IF_ERROR(
      CheckDiskRoom(prepared->disk_needs_, prepared->place_, options.model_out, say_below));
  if (run.setup().held_out() == nullptr) return prepared;
  DPIPE_ASSIGN_OR_RETURN(prepared->evaluator_,
                         Evaluator::Create(&run.setup(), options.evaluation_quantiles));
  if (options.keep_best) {
    DPIPE_ASSIGN_OR_RETURN(prepared->best_,
                           BestModel::Open(options.best_out, MeasureText(&run.setup(), options),
                                           run.checkpoints().resumes_here(), say_below));
  }
  return prepared;
}

}  // namespace dpipe::tools

#include "tools/training_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/planner/search.h"
#include "core/report/plan_text.h"
#include "core/train/job.h"

namespace dpipe::tools {

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Create(const TrainerOptions& options,
                                                                 const Say& say,
                                                                 const ShowProgress& show) {
  auto run = std::unique_ptr<TrainingRun>(new TrainingRun(options));
  DPIPE_ASSIGN_OR_RETURN(run->setup_, models::TrainingSetup::Create(options.setup));
  say(run->setup_->Describe());
  if (options.strategy.frozen() == "cached") DPIPE_RETURN_IF_ERROR(run->BuildCache(show));
  run->job_ = run->setup_->job();
  DPIPE_RETURN_IF_ERROR(run->MakeThePlan(show));
  say(absl::StrCat("Plan:     ", options.strategy.name(), ", ", report::PlanText(run->plan_)));
  run->ChooseSteps(say);
  DPIPE_ASSIGN_OR_RETURN(run->session_, StartSession(run->job_, run->plan_, &run->ema_));
  run->setup_->ReleaseInitialParameters();
  run->job_.backbone_parameters = run->setup_->job().backbone_parameters;
  return run;
}

// Of what is trained on: all images, unless there are fewer steps than an epoch has.
absl::Status TrainingRun::BuildCache(const ShowProgress& show) {
  const int64_t batch = options_.setup.global_batch;
  int64_t steps = (setup_->loader().dataset().size() + batch - 1) / batch;
  if (options_.num_steps > 0) steps = std::min(steps, options_.num_steps);
  return setup_->BuildCache(steps, [&](double done) { show("filling the offline cache", done); })
      .status();
}

absl::Status TrainingRun::MakeThePlan(const ShowProgress& show) {
  auto on_progress = [&](double done) { show("profiling the model on this machine", done); };
  on_progress(0);
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(job_.workers));
  PlanOptions plan_options;
  plan_options.global_batch = options_.setup.global_batch;
  plan_options.num_micro_batches = options_.num_micro_batches;
  std::vector<int> local_batches = CandidateLocalBatches(options_.setup.global_batch);
  if (options_.max_micro_batch > 0) {
    local_batches.erase(
        std::upper_bound(local_batches.begin(), local_batches.end(), options_.max_micro_batch),
        local_batches.end());
  }
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile, ProfileJob(job_, local_batches, on_progress));
  DPIPE_ASSIGN_OR_RETURN(PlanResult planned,
                         MakePlan(options_.strategy, profile, cluster, plan_options));
  plan_ = std::move(planned.plan);
  return absl::OkStatus();
}

void TrainingRun::ChooseSteps(const Say& say) {
  num_steps_ = options_.num_steps;
  if (num_steps_ == 0) {
    const int64_t step_ns = std::max<int64_t>(1, plan_.prediction().step_ns());
    // Some slower than predicted, so that the learning rate's decay ends before the time does.
    num_steps_ = std::max<int64_t>(1, options_.time_limit_ns / step_ns * 4 / 5);
  }
  job_.optimizer.learning_rate.total_steps = num_steps_;
  std::string until = absl::StrCat(num_steps_, " steps");
  if (options_.time_limit_ns > 0) {
    absl::StrAppend(&until, ", at most ", FormatDuration(options_.time_limit_ns));
  }
  say(absl::StrCat("Training: ", until, "; Ctrl-C saves and ends it"));
}

double TrainingRun::Epoch(int64_t steps) const {
  return static_cast<double>(steps) * plan_.global_batch() / setup_->loader().dataset().size();
}

models::NamedTensors TrainingRun::Weights() const {
  if (!has_averages()) return session_->CollectParameters();
  models::NamedTensors weights = ema_.Collect();
  // Layers that are not trained have no averages.
  for (const auto& [name, tensor] : job_.backbone_parameters) weights.emplace(name, tensor);
  return weights;
}

}  // namespace dpipe::tools

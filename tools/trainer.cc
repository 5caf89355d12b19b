#include "tools/trainer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/planner/search.h"
#include "core/report/plan_text.h"
#include "core/report/progress.h"
#include "core/train/training_loop.h"
#include "data/image_encode.h"
#include "tools/stop_request.h"
#include "tools/trained_model.h"
#include "tools/training_log.h"

namespace dpipe::tools {
namespace {

// About the last 50 steps make up the loss that is shown: single steps draw other timesteps, whose
// losses differ by a factor of ten.
constexpr double kLossDecay = 0.98;

class Trainer {
 public:
  Trainer(const TrainerOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options),
        say_(say),
        progress_(report::StandardErrorProgress("train")),
        loss_(kLossDecay) {}

  absl::StatusOr<TrainerResult> Run() {
    DPIPE_RETURN_IF_ERROR(CheckWritable(options_.out));
    DPIPE_ASSIGN_OR_RETURN(setup_, models::TrainingSetup::Create(options_.setup));
    say_(setup_->Describe());
    job_ = setup_->job();
    if (options_.strategy.frozen() == "cached") DPIPE_RETURN_IF_ERROR(BuildCache());
    DPIPE_RETURN_IF_ERROR(MakeThePlan());
    ChooseSteps();
    DPIPE_ASSIGN_OR_RETURN(session_, StartSession(job_, plan_, &ema_));
    DPIPE_ASSIGN_OR_RETURN(log_, TrainingLog::Create(options_.log_path));
    DPIPE_RETURN_IF_ERROR(TrainAll());
    DPIPE_RETURN_IF_ERROR(Save());
    DPIPE_RETURN_IF_ERROR(DrawSamples());
    progress_.Finish();
    return result_;
  }

 private:
  absl::Status MakeThePlan() {
    auto show = [this](double done) { Show("profiling the model on this machine", done); };
    show(0);
    DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(job_.workers));
    PlanOptions plan_options;
    plan_options.global_batch = options_.setup.global_batch;
    plan_options.num_micro_batches = options_.num_micro_batches;
    DPIPE_ASSIGN_OR_RETURN(
        const ModelProfile profile,
        ProfileJob(job_, CandidateLocalBatches(options_.setup.global_batch), show));
    DPIPE_ASSIGN_OR_RETURN(PlanResult planned,
                           MakePlan(options_.strategy, profile, cluster, plan_options));
    plan_ = std::move(planned.plan);
    progress_.Finish();
    say_(absl::StrCat("Plan:     ", options_.strategy.name(), ", ", report::PlanText(plan_)));
    return absl::OkStatus();
  }

  void ChooseSteps() {
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
    say_(absl::StrCat("Training: ", until, "; Ctrl-C saves and ends it"));
  }

  // Of what is trained on: all images, unless there are fewer steps than an epoch has.
  absl::Status BuildCache() {
    const int64_t batch = options_.setup.global_batch;
    int64_t steps = (setup_->loader().dataset().size() + batch - 1) / batch;
    if (options_.num_steps > 0) steps = std::min(steps, options_.num_steps);
    auto show = [this](double done) { Show("filling the offline cache", done); };
    return setup_->BuildCache(steps, show).status();
  }

  absl::Status TrainAll() {
    StopRequest stop;
    TrainingLoopOptions loop;
    loop.num_steps = num_steps_;
    loop.time_limit_ns = options_.time_limit_ns;
    loop.on_step = [this](const StepResult& step) { OnStep(step); };
    loop.should_stop = [&stop] { return stop.signal() != nullptr; };
    if (options_.save_every > 0) {
      loop.pauses.push_back({options_.save_every, [this](int64_t) { return Save(); }});
    }
    if (options_.sample_every > 0) {
      loop.pauses.push_back({options_.sample_every, [this](int64_t) { return DrawSamples(); }});
    }
    start_ns_ = MonotonicNow();
    DPIPE_ASSIGN_OR_RETURN(const TrainingLoopResult done, RunTrainingLoop(loop, session_.get()));
    result_.training_ns = done.training_ns;
    if (done.reason == StopReason::kTimeLimit) result_.stopped_by = "the time limit";
    if (done.reason == StopReason::kAsked) result_.stopped_by = stop.signal();
    return log_->Flush();
  }

  // On a rank's thread, one at a time; the main thread waits meanwhile.
  void OnStep(const StepResult& step) {
    result_.steps = step.step + 1;
    result_.images = result_.steps * plan_.global_batch();
    loss_.Add(step.loss);
    result_.loss = loss_.mean();
    const double rate =
        static_cast<double>(plan_.global_batch()) * kNanosPerSecond / step.duration_ns;
    const double elapsed_ns = static_cast<double>(MonotonicNow() - start_ns_);
    log_->Write({result_.steps, step.loss, job_.optimizer.learning_rate.At(step.step), rate,
                 elapsed_ns / kNanosPerSecond});
    report::ProgressState state;
    state.phase = "training";
    state.step = static_cast<int>(result_.steps);
    state.num_steps = static_cast<int>(num_steps_);
    state.images_per_second = rate;
    state.loss = result_.loss;
    state.fraction_done = static_cast<double>(result_.steps) / num_steps_;
    if (options_.time_limit_ns > 0) {
      const double by_time = std::min(1.0, elapsed_ns / options_.time_limit_ns);
      state.fraction_done = std::max(state.fraction_done, by_time);
    }
    training_progress().Update(state);
  }

  // Its remaining time is counted from the first step, not from the profiling before it.
  report::Progress& training_progress() {
    if (training_progress_ == nullptr) {
      training_progress_ =
          std::make_unique<report::Progress>(report::StandardErrorProgress("train"));
    }
    return *training_progress_;
  }

  std::map<std::string, Tensor> Weights() const {
    return job_.optimizer.ema_decay > 0 ? ema_.Collect() : session_->CollectParameters();
  }

  absl::Status Save() {
    DPIPE_RETURN_IF_ERROR(log_->Flush());
    TrainingRecord record;
    record.steps = result_.steps;
    record.images = result_.images;
    record.loss = result_.loss;
    record.ema_decay = job_.optimizer.ema_decay;
    record.strategy = options_.strategy.name();
    record.data_folder = options_.setup.data_folder;
    record.command = options_.command;
    return SaveTrainedModel(setup_->model(), Weights(), options_.format, record, options_.out);
  }

  absl::Status DrawSamples() {
    if (options_.sample_prompts.empty()) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(
        const auto sampler,
        models::ImageSampler::Create(&setup_->model(), Weights(), options_.setup.compute_dtype));
    DPIPE_ASSIGN_OR_RETURN(
        const std::vector<Image> images,
        sampler->Draw(options_.sample_prompts, options_.draw, setup_->workers()));
    const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
    DPIPE_ASSIGN_OR_RETURN(const std::string png,
                           EncodePng(models::MakeGrid(images, columns, /*margin=*/4, /*zoom=*/2)));
    DPIPE_RETURN_IF_ERROR(MakeFolder(options_.sample_folder));
    result_.last_samples =
        absl::StrFormat("%s/step_%06d.png", options_.sample_folder, result_.steps);
    return WriteFileAtomically(result_.last_samples, png);
  }

  void Show(const std::string& phase, double done) {
    report::ProgressState state;
    state.phase = phase;
    state.fraction_done = done;
    progress_.Update(state);
  }

  const TrainerOptions& options_;
  const std::function<void(const std::string&)>& say_;
  report::Progress progress_;
  std::unique_ptr<report::Progress> training_progress_;
  std::unique_ptr<models::TrainingSetup> setup_;
  TrainingJob job_;
  Plan plan_;
  int64_t num_steps_ = 0;
  EmaWeights ema_;
  std::unique_ptr<LocalSession> session_;
  std::unique_ptr<TrainingLog> log_;
  Nanos start_ns_ = 0;
  RunningMean loss_;
  TrainerResult result_;
};

}  // namespace

absl::StatusOr<TrainerResult> Train(const TrainerOptions& options,
                                    const std::function<void(const std::string&)>& say) {
  if (options.num_steps < 0 || options.time_limit_ns < 0 ||
      (options.num_steps == 0 && options.time_limit_ns == 0)) {
    return absl::InvalidArgumentError(absl::StrCat("training needs a number of steps (",
                                                   options.num_steps, ") or a time limit (",
                                                   FormatDuration(options.time_limit_ns), ")"));
  }
  return Trainer(options, say).Run();
}

}  // namespace dpipe::tools

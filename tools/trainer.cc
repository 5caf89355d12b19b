#include "tools/trainer.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/report/progress.h"
#include "core/train/training_loop.h"
#include "tools/evaluator.h"
#include "tools/mllog.h"
#include "tools/run_logs.h"
#include "tools/sample_grid.h"
#include "tools/stop_request.h"
#include "tools/trained_model.h"
#include "tools/training_log.h"
#include "tools/training_progress.h"
#include "tools/training_run.h"

namespace dpipe::tools {
namespace {

// About the last 50 steps make up the loss that is shown: single steps draw other timesteps, whose
// losses differ by a factor of ten.
constexpr double kLossDecay = 0.98;

// "loss 0.4312 (average weights), by quantile 0.05 1.0213, 0.15 0.8127, ...".
std::string EvaluationText(const EvaluationReport& report) {
  std::string text = absl::StrFormat("loss %.4f (%s weights)", report.mean, report.weights);
  for (size_t i = 0; i < report.quantiles.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? ", by quantile " : ", ",
                    absl::StrFormat("%g %.4f", report.quantiles[i], report.losses[i]));
  }
  return text;
}

class Trainer {
 public:
  Trainer(const TrainerOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), say_(say), loss_(kLossDecay) {}

  absl::StatusOr<TrainerResult> Run() {
    DPIPE_RETURN_IF_ERROR(CheckWritable(options_.out));
    DPIPE_RETURN_IF_ERROR(MakeParentFolder(options_.config_path));
    DPIPE_RETURN_IF_ERROR(PutTogether());
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options_.config_path, options_.config));
    DPIPE_RETURN_IF_ERROR(StartObservers());
    absl::Status status = TrainAndSave();
    observers_.OnEnd({result_.steps, result_.images, result_.stopped_by, status});
    DPIPE_RETURN_IF_ERROR(status);
    DPIPE_RETURN_IF_ERROR(observers_.Flush());
    return result_;
  }

 private:
  absl::Status PutTogether() {
    report::Progress progress(report::StandardErrorProgress("train"));
    const auto show = [&progress](const std::string& phase, double done) {
      report::ProgressState state;
      state.phase = phase;
      state.fraction_done = done;
      progress.Update(state);
    };
    const auto say = [&](const std::string& line) {
      progress.Finish();
      say_(line);
    };
    DPIPE_ASSIGN_OR_RETURN(run_, TrainingRun::Create(options_, say, show));
    if (run_->setup().held_out() == nullptr) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(evaluator_,
                           Evaluator::Create(&run_->setup(), options_.evaluation_quantiles));
    return absl::OkStatus();
  }

  absl::Status StartObservers() {
    observers_.Add(std::make_unique<TrainingProgress>(report::StandardErrorProgress("train"),
                                                      options_.time_limit_ns));
    DPIPE_RETURN_IF_ERROR(AddRunLogs(options_, /*first_step=*/0, init_start_ms_, &observers_));
    RunStart start;
    start.model = run_->setup().model().model().name();
    start.strategy = options_.strategy.name();
    start.num_steps = run_->num_steps();
    start.global_batch = run_->plan().global_batch();
    start.num_devices = run_->plan().num_devices();
    start.config = options_.config;
    start.evaluation_samples =
        run_->setup().held_out() == nullptr ? 0 : run_->setup().held_out()->options().global_batch;
    start.training_samples = run_->setup().loader().dataset().size();
    start.seed = options_.setup.seed;
    observers_.OnStart(start);
    return absl::OkStatus();
  }

  absl::Status TrainAndSave() {
    DPIPE_RETURN_IF_ERROR(TrainAll());
    DPIPE_RETURN_IF_ERROR(Save());
    DPIPE_RETURN_IF_ERROR(Evaluate());
    return options_.sample_at_end ? DrawSamples() : absl::OkStatus();
  }

  absl::Status TrainAll() {
    StopRequest stop;
    TrainingLoopOptions loop;
    loop.num_steps = run_->num_steps();
    loop.time_limit_ns = options_.time_limit_ns;
    loop.on_step = [this](const StepResult& step) { OnStep(step); };
    loop.should_stop = [&stop] { return stop.signal() != nullptr; };
    if (options_.save_every > 0) {
      loop.pauses.push_back({options_.save_every, [this](int64_t) { return Save(); }});
    }
    if (options_.evaluate_every > 0) {
      loop.pauses.push_back({options_.evaluate_every, [this](int64_t) { return Evaluate(); }});
    }
    if (options_.sample_every > 0) {
      loop.pauses.push_back({options_.sample_every, [this](int64_t) { return DrawSamples(); }});
    }
    start_ns_ = MonotonicNow();
    DPIPE_ASSIGN_OR_RETURN(const TrainingLoopResult done, RunTrainingLoop(loop, &run_->session()));
    result_.training_ns = done.training_ns;
    if (done.reason == StopReason::kTimeLimit) result_.stopped_by = "the time limit";
    if (done.reason == StopReason::kAsked) result_.stopped_by = stop.signal();
    return observers_.Flush();
  }

  // On a rank's thread, one at a time; the main thread waits meanwhile.
  void OnStep(const StepResult& step) {
    const int global_batch = run_->plan().global_batch();
    result_.steps = step.step + 1;
    result_.images = result_.steps * global_batch;
    loss_.Add(step.loss);
    result_.loss = loss_.mean();
    StepReport report;
    report.step = result_.steps;
    report.loss = step.loss;
    report.mean_loss = loss_.mean();
    report.learning_rate = run_->job().optimizer.learning_rate.At(step.step);
    report.images_per_second =
        static_cast<double>(global_batch) * kNanosPerSecond / step.duration_ns;
    report.elapsed_s = static_cast<double>(MonotonicNow() - start_ns_) / kNanosPerSecond;
    report.epoch = run_->Epoch(result_.steps);
    observers_.OnStep(report);
  }

  absl::Status Save() {
    DPIPE_RETURN_IF_ERROR(observers_.Flush());
    TrainingRecord record;
    record.steps = result_.steps;
    record.images = result_.images;
    record.loss = result_.loss;
    record.ema_decay = run_->job().optimizer.ema_decay;
    record.strategy = options_.strategy.name();
    record.data_folder = options_.setup.data.folder;
    record.command = options_.command;
    return SaveTrainedModel(run_->setup().model(), run_->Weights(), options_.format, record,
                            options_.out);
  }

  absl::Status Evaluate() {
    if (evaluator_ == nullptr) return absl::OkStatus();
    if (options_.evaluate_saved || !run_->has_averages()) {
      DPIPE_RETURN_IF_ERROR(
          EvaluateWeights(run_->Weights(), run_->has_averages() ? "average" : "trained"));
    }
    if (options_.evaluate_trained && run_->has_averages()) {
      DPIPE_RETURN_IF_ERROR(EvaluateWeights(run_->TrainedWeights(), "trained"));
    }
    return absl::OkStatus();
  }

  absl::Status EvaluateWeights(const models::NamedTensors& weights, const char* name) {
    DPIPE_ASSIGN_OR_RETURN(const EvaluationReport report,
                           evaluator_->Evaluate(weights, name, result_.steps,
                                                run_->Epoch(result_.steps), &observers_));
    result_.evaluation = EvaluationText(report);
    say_(absl::StrCat("Step ", result_.steps, ", held out: ", result_.evaluation));
    return absl::OkStatus();
  }

  absl::Status DrawSamples() {
    models::TrainingSetup& setup = run_->setup();
    DataLoader* shown = setup.held_out() != nullptr ? setup.held_out() : &setup.loader();
    DPIPE_ASSIGN_OR_RETURN(models::DrawRequest request,
                           GridRequest(setup.model(), options_.sample_prompts, shown));
    request.options = options_.draw;
    request.compute_dtype = options_.setup.compute_dtype;
    DPIPE_ASSIGN_OR_RETURN(result_.last_samples,
                           DrawSampleGrid(setup.model(), run_->Weights(), request, setup.workers(),
                                          options_.sample_folder, result_.steps, &observers_));
    return absl::OkStatus();
  }

  const TrainerOptions& options_;
  const std::function<void(const std::string&)>& say_;
  std::unique_ptr<TrainingRun> run_;
  std::unique_ptr<Evaluator> evaluator_;  // null where nothing is held out
  TrainingObservers observers_;
  const int64_t init_start_ms_ = UnixMillis();
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

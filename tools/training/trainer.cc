#include "tools/training/trainer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/count.h"
#include "core/base/files/file.h"
#include "core/base/files/write_place.h"
#include "core/base/host/stop_request.h"
#include "core/profile/component_work.h"
#include "core/report/progress.h"
#include "core/train/training_loop.h"
#include "tools/planning/proto_file.h"
#include "tools/run_control/run_stop.h"
#include "tools/run_logs/mllog.h"
#include "tools/run_logs/run_logs.h"
#include "tools/run_logs/sample_grid.h"
#include "tools/run_logs/training_log.h"
#include "tools/run_logs/training_progress.h"
#include "tools/training/best_model.h"
#include "tools/training/evaluator.h"
#include "tools/training/prepared_run.h"
#include "tools/training/set_aside.h"
#include "tools/training/share_of_peak.h"
#include "tools/training/trained_model.h"
#include "tools/training/training_run.h"

namespace dpipe::tools {
namespace {

// The displayed loss averages about the last 50 steps. Single steps draw different timesteps, whose
// losses differ by a factor of ten.
constexpr double kLossDecay = 0.98;

// Returns "loss 0.4312 (average weights), by quantile 0.05 1.0213, 0.15 0.8127, ...".
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
      : options_(options), say_(say), loss_(kLossDecay) {
    if (options.setup.processes != nullptr) others_.emplace(options.setup.processes);
  }

  absl::StatusOr<TrainerResult> Run() {
    DPIPE_RETURN_IF_ERROR(Prepare());
    RestoreProgress();
    FindPeak();
    // Only here is it known that the run can begin.
    DPIPE_RETURN_IF_ERROR(SetAside());
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(options_.config_path, options_.config));
    say_(absl::StrCat("Written:  ", options_.config_path, ", the whole configuration"));
    DPIPE_RETURN_IF_ERROR(KeepPlanBasis());
    DPIPE_RETURN_IF_ERROR(StartObservers());
    absl::Status status = TrainAndSave();
    SayNotes();  // notes of the last evaluation and samples
    if (left_out_ && result_.stopped_by.empty()) result_.stopped_by = stop_->reason();
    DropRunSignals(options_, say_);
    if (prepared_->best() != nullptr) result_.best = prepared_->best()->Describe();
    if (faults_ != nullptr) result_.faults = faults_->Summary();
    if (status.ok()) {
      result_.prompts =
          SuggestedPrompts(run_->setup().model(), options_.draw, run_->grid_prompts());
    }
    observers_.OnEnd({result_.steps, result_.images, result_.stopped_by, status});
    DPIPE_RETURN_IF_ERROR(status);
    DPIPE_RETURN_IF_ERROR(observers_.Flush());
    return result_;
  }

 private:
  // Returns Cancelled, with a message that begins with the signal, if one arrives meanwhile.
  // Several processes prepare together, so that a signal then ends them at once.
  absl::Status Prepare() {
    if (others_.has_value()) {
      DPIPE_ASSIGN_OR_RETURN(prepared_, PreparedRun::Create(options_, say_));
    } else {
      stop_.emplace(options_, nullptr);
      options_.setup.should_stop = [this] { return stop_->has_signal(); };
      auto prepared = PreparedRun::Create(options_, say_);
      if (stop_->has_signal()) {
        return absl::CancelledError(
            absl::StrCat(stop_->reason(), " has ended the run before its first step"));
      }
      DPIPE_ASSIGN_OR_RETURN(prepared_, std::move(prepared));
    }
    run_ = &prepared_->run();
    if (!stop_.has_value()) stop_.emplace(options_, &*others_);
    stop_->BeginSteps();
    return absl::OkStatus();
  }

  // Sets aside everything that the run would replace or mix with.
  absl::Status SetAside() {
    TrainingCheckpoints& checkpoints = run_->checkpoints();
    if (checkpoints.resumes_here()) return checkpoints.SetLaterAside();
    DPIPE_ASSIGN_OR_RETURN(const RunAside aside,
                           SetRunAside(options_.out, options_.log_path, checkpoints.folder()));
    if (!aside.paths.empty()) say_(DescribeAside(options_.out, aside));
    return absl::OkStatus();
  }

  // Writes the profile and cluster of the plan, so that other runs can have the same plan.
  absl::Status KeepPlanBasis() {
    if (run_->plan_basis() == nullptr) return absl::OkStatus();
    DPIPE_RETURN_IF_ERROR(WriteProto(options_.kept_profile_path, run_->plan_basis()->profile));
    return WriteProto(options_.kept_cluster_path, run_->plan_basis()->cluster);
  }

  // A step of another size, or without all of its work, counts as one of the planned size.
  void FindPeak() {
    const auto* processes = options_.setup.processes;
    peak_macs_per_second_ = PeakMacsPerSecond(run_->setup().workers()) *
                            (processes == nullptr ? 1 : processes->num_processes());
    if (peak_macs_per_second_ == 0) return;
    macs_per_sample_ = MacsPerSample(*run_->job().model, options_.strategy.frozen() != "cached");
  }

  // Restores the state of the checkpoint that the run resumes from.
  void RestoreProgress() {
    const CheckpointInfo before = run_->resumed() != nullptr ? *run_->resumed() : CheckpointInfo();
    result_.steps = result_.first_step = before.step;
    result_.num_steps = run_->num_steps();
    result_.images = before.step * run_->plan().global_batch();
    training_ns_before_ = before.training_ns;
    loss_.Restore(before.loss_sum, before.loss_weight);
    result_.loss = loss_.mean();
    faults_ = std::make_unique<FaultWatch>(options_.faults, run_->job().model, run_->job().inputs,
                                           &run_->setup().loader(), run_->plan().global_batch(),
                                           before.skipped_steps);
  }

  absl::Status StartObservers() {
    observers_.Add(std::make_unique<TrainingProgress>(report::StandardErrorProgress("train"),
                                                      options_.time_limit_ns));
    DPIPE_RETURN_IF_ERROR(AddRunLogs(options_, run_->first_step(), init_start_ms_, &observers_));
    RunStart start;
    start.model = run_->setup().model().model().name();
    start.strategy = options_.strategy.name();
    start.first_step = run_->first_step();
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

  // Trains, and saves as much as possible even if something fails. Returns the first error; if the
  // last checkpoint or the model could not be saved, the error says so.
  absl::Status TrainAndSave() {
    absl::Status status = TrainAll();
    const bool trained = status.ok();
    absl::Status checkpoint, model;
    if (!run_->failed()) checkpoint = SaveCheckpoint(/*is_last=*/true);
    if (trained) model = Save();
    checkpoint.Update(run_->checkpoints().Finish());
    if (!model.ok()) model = SaveAgain();
    const bool keeps_weights = options_.sample_at_end || prepared_->evaluator() != nullptr;
    if (trained) status.Update(run_->EndSession(keeps_weights));
    status.Update(SavedLast(trained, checkpoint, model));
    if (!trained || run_->failed()) return status;
    status.Update(WarnOnly("the evaluation", Evaluate()));
    status.Update(KeepBest());
    if (options_.sample_at_end) status.Update(WarnOnly("the sample grid", DrawSamples()));
    return status;
  }

  // The checkpoint that was being written may have taken the model's room. It is now complete, or
  // has released its room. If that is not enough, a finished run gives up its checkpoints, because
  // nothing resumes from them.
  absl::Status SaveAgain() {
    absl::Status status = Save();
    if (status.ok() || SignalNamed(result_.stopped_by) != 0) return status;
    const auto free_bytes = [this]() -> std::optional<int64_t> {
      const auto place = FindWritePlace(options_.model_out);
      return place.ok() ? place->free_bytes : std::nullopt;
    };
    const int64_t bytes = prepared_->disk_needs().model_bytes;
    return run_->checkpoints().MakeRoom(bytes, free_bytes) ? Save() : status;
  }

  // Combines both errors; if only one save failed, reports the state of the other.
  absl::Status SavedLast(bool trained, const absl::Status& checkpoint, const absl::Status& model) {
    if (model.ok()) {
      if (!checkpoint.ok() && trained) {
        say_(absl::StrCat("Saved:    ", options_.model_out, ", the model of step ", result_.steps));
      }
      return checkpoint;
    }
    const std::string other =
        checkpoint.ok()
            ? "; the last checkpoint contains it; free some space and run again with --resume=auto"
            : absl::StrCat("\n", checkpoint.message());
    // Not ResourceExhausted, which programs report as too little memory by an exit code of its own.
    return absl::UnavailableError(
        absl::StrCat("the model was not saved: ", model.message(), other));
  }

  // Says "Training: 400 steps, at most 10 min 00 s; Ctrl-C saves and ends it".
  void SayTraining() const {
    std::string until = Count(run_->num_steps(), "step");
    if (options_.time_limit_ns > 0) {
      absl::StrAppend(&until, ", at most ", FormatDuration(options_.time_limit_ns));
    }
    say_(absl::StrCat("Training: ", until, "; Ctrl-C saves and ends it"));
  }

  absl::Status TrainAll() {
    // The previous process was killed after its last step.
    if (run_->first_step() == run_->num_steps()) return absl::OkStatus();
    SayTraining();
    TrainingLoopOptions loop;
    loop.first_step = run_->first_step();
    loop.num_steps = run_->num_steps();
    loop.time_limit_ns = options_.time_limit_ns;
    loop.on_step = [this](const StepResult& step) { OnStep(step); };
    loop.should_stop = [this] { return stop_->is_requested(); };
    loop.after_piece = [this](int64_t) { return AfterPiece(); };
    if (options_.checkpoints.every > 0) {
      loop.pauses.push_back({options_.checkpoints.every,
                             [this](int64_t) { return SaveCheckpoint(/*is_last=*/false); }});
    }
    if (options_.save_every > 0) {
      loop.pauses.push_back({options_.save_every, [this](int64_t) {
                               return WarnUnlessStopOnError("the model", Save());
                             }});
    }
    if (options_.evaluate_every > 0) {
      loop.pauses.push_back({options_.evaluate_every, [this](int64_t) -> absl::Status {
                               DPIPE_RETURN_IF_ERROR(WarnOnly("the evaluation", Evaluate()));
                               return WarnUnlessStopOnError("the best model", KeepBest());
                             }});
    }
    if (options_.sample_every > 0) {
      loop.pauses.push_back({options_.sample_every, [this](int64_t) {
                               return WarnOnly("the sample grid", DrawSamples());
                             }});
    }
    start_ns_ = MonotonicNow();
    const auto trained = RunTrainingLoop(loop, &run_->session());
    SayNotes();
    DPIPE_ASSIGN_OR_RETURN(const TrainingLoopResult done, trained);
    result_.training_ns = done.training_ns;
    if (done.reason == StopReason::kTimeLimit) result_.stopped_by = "the time limit";
    if (done.reason == StopReason::kRequested) result_.stopped_by = stop_->reason();
    return absl::OkStatus();
  }

  // Turns an error of work that only monitors training into a warning, unless training failed too.
  absl::Status WarnOnly(const char* what, const absl::Status& status) const {
    if (status.ok() || run_->failed()) return status;
    say_(absl::StrCat("Warning:  ", what, " of step ", result_.steps, ": ", status.message()));
    return absl::OkStatus();
  }

  // Handles an error of an output that the end of the run writes again, as --checkpoints.on_error
  // says.
  absl::Status WarnUnlessStopOnError(const char* what, const absl::Status& status) const {
    return options_.checkpoints.stop_on_error ? status : WarnOnly(what, status);
  }

  absl::Status AfterPiece() {
    SayNotes();
    if (!TakeRunSignal(options_, kSaveNowFile)) return absl::OkStatus();
    return SaveCheckpoint(/*is_last=*/false);
  }

  void SayNotes() {
    for (const std::string& line : run_->setup().TakeDeviceNotes()) say_(line);
    for (const std::string& line : faults_->TakeLines()) say_(line);
  }

  // Writes the log before the checkpoint, so that the log has every step of the checkpoint. An
  // error of the log does not prevent the checkpoint. After the last step, the run's end reports
  // the log's error.
  absl::Status SaveCheckpoint(bool is_last) {
    const absl::Status log = is_last ? absl::OkStatus() : observers_.Flush();
    CheckpointInfo info;
    info.training_ns = training_ns_before_ + training_ns_;
    info.loss_sum = loss_.sum();
    info.loss_weight = loss_.weight();
    info.skipped_steps = faults_->num_skipped();
    DPIPE_RETURN_IF_ERROR(run_->SaveCheckpoint(std::move(info), is_last));
    return WarnUnlessStopOnError("the log", log);
  }

  // Runs on the session's thread while the main thread waits.
  void OnStep(const StepResult& step) {
    const int global_batch = run_->plan().global_batch();
    result_.steps = step.step + 1;
    result_.images = result_.steps * global_batch;
    training_ns_ += step.duration_ns;
    faults_->OnStep(step);
    if (step.applied) loss_.Add(step.loss);
    result_.loss = loss_.mean();
    StepReport report;
    report.step = result_.steps;
    report.loss = step.loss;
    // Until a step is finite, shows the loss that is not.
    report.mean_loss = loss_.weight() > 0 ? loss_.mean() : step.loss;
    report.grad_norm = step.grad_norm;
    report.learning_rate = run_->job().optimizer.learning_rate.At(step.step);
    report.seconds = static_cast<double>(step.duration_ns) / kNanosPerSecond;
    peak_bytes_.resize(step.peak_memory_bytes.size());
    for (size_t i = 0; i < peak_bytes_.size(); ++i) {
      peak_bytes_[i] = std::max(peak_bytes_[i], step.peak_memory_bytes[i]);
    }
    report.peak_memory_bytes = peak_bytes_;
    if (peak_macs_per_second_ > 0) {
      report.share_of_peak = macs_per_sample_ * report.images_per_second / peak_macs_per_second_;
    }
    report.images_per_second =
        static_cast<double>(global_batch) * kNanosPerSecond / step.duration_ns;
    report.elapsed_s = static_cast<double>(MonotonicNow() - start_ns_) / kNanosPerSecond;
    report.epoch = run_->Epoch(result_.steps);
    observers_.OnStep(report);
  }

  TrainingRecord Record() const {
    TrainingRecord record;
    record.steps = result_.steps;
    record.images = result_.images;
    record.loss = result_.loss;
    record.ema_decay = run_->job().optimizer.ema_decay;
    record.strategy = options_.strategy.name();
    record.data_folder = options_.setup.data.folder;
    record.command = options_.command;
    return record;
  }

  absl::Status Save() {
    return SaveTrainedModel(run_->setup().model(), *run_->SavedWeights(), options_.format, Record(),
                            options_.model_out);
  }

  // Keeps the model of the last evaluation, if its loss is the lowest so far.
  absl::Status KeepBest() {
    if (!best_loss_.has_value()) return absl::OkStatus();
    const double loss = *std::exchange(best_loss_, std::nullopt);
    DPIPE_RETURN_IF_ERROR(prepared_->best()->Keep(run_->setup().model(), *run_->SavedWeights(),
                                                  options_.format, Record(), loss));
    say_(absl::StrCat("Best:     ", prepared_->best()->Describe()));
    return absl::OkStatus();
  }

  // Skips or cancels `work`, which may take long, once the run is to stop. Does nothing if
  // `last_step` is this step; sets it when `work` is done.
  absl::Status DoUnlessStopped(int64_t* last_step, const std::function<absl::Status()>& work) {
    if (*last_step == result_.steps) return absl::OkStatus();
    if (stop_->is_requested()) {
      left_out_ = true;
      return absl::OkStatus();
    }
    const absl::Status status = work();
    if (absl::IsCancelled(status) && stop_->is_requested()) {
      left_out_ = true;
      return absl::OkStatus();
    }
    if (status.ok()) *last_step = result_.steps;
    return status;
  }

  absl::Status Evaluate() {
    if (prepared_->evaluator() == nullptr) return absl::OkStatus();
    return DoUnlessStopped(&evaluated_step_, [this] { return EvaluateAll(); });
  }

  // Evaluates the saved weights first, if at all, because result_ keeps the first text.
  absl::Status EvaluateAll() {
    result_.evaluation.clear();
    if (options_.evaluate_saved || !run_->has_averages()) {
      DPIPE_ASSIGN_OR_RETURN(const models::NamedTensors weights, run_->Weights());
      DPIPE_ASSIGN_OR_RETURN(
          const double loss,
          EvaluateWeights(weights, run_->has_averages() ? "average" : "trained"));
      if (prepared_->best() != nullptr && prepared_->best()->IsBelow(loss)) best_loss_ = loss;
    }
    if (options_.evaluate_trained && run_->has_averages()) {
      DPIPE_ASSIGN_OR_RETURN(const models::NamedTensors weights, run_->TrainedWeights());
      DPIPE_RETURN_IF_ERROR(EvaluateWeights(weights, "trained").status());
    }
    return absl::OkStatus();
  }

  // Returns the mean loss.
  absl::StatusOr<double> EvaluateWeights(const models::NamedTensors& weights, const char* name) {
    LongTask task = Task(absl::StrCat("evaluating after step ", result_.steps),
                         run_->setup().held_out()->options().global_batch);
    DPIPE_ASSIGN_OR_RETURN(
        const EvaluationReport report,
        prepared_->evaluator()->Evaluate(weights, name, result_.steps, run_->Epoch(result_.steps),
                                         &task, &observers_));
    const std::string text = EvaluationText(report);
    if (result_.evaluation.empty()) result_.evaluation = text;
    say_(absl::StrCat("Step ", result_.steps, ", held out: ", text));
    return report.mean;
  }

  LongTask Task(const std::string& phase, int num_images) {
    return LongTask(report::StandardErrorProgress("train"), phase, num_images,
                    [this] { return stop_->is_requested(); });
  }

  absl::Status DrawSamples() {
    return DoUnlessStopped(&sampled_step_, [this] { return DrawGrid(); });
  }

  absl::Status DrawGrid() {
    models::TrainingSetup& setup = run_->setup();
    DataLoader* shown = setup.held_out() != nullptr ? setup.held_out() : &setup.loader();
    DPIPE_ASSIGN_OR_RETURN(models::DrawRequest request,
                           GridRequest(setup.model(), run_->grid_prompts(), shown));
    request.options = options_.draw;
    request.compute_dtype = options_.setup.compute_dtype;
    DPIPE_ASSIGN_OR_RETURN(const models::NamedTensors weights, run_->Weights());
    LongTask task = Task(absl::StrCat("drawing samples after step ", result_.steps),
                         static_cast<int>(request.prompts.size()));
    DPIPE_ASSIGN_OR_RETURN(
        result_.last_samples,
        DrawSampleGrid(setup.model(), weights, request, setup.workers(), options_.sample_folder,
                       result_.steps, &task, &observers_));
    return absl::OkStatus();
  }

  TrainerOptions options_;
  const std::function<void(const std::string&)>& say_;
  std::optional<StopReceiver> others_;  // requests to stop, of the other processes
  std::optional<RunStop> stop_;         // set by Prepare
  std::unique_ptr<PreparedRun> prepared_;
  TrainingRun* run_ = nullptr;  // owned by prepared_
  TrainingObservers observers_;
  const int64_t init_start_ms_ = UnixMillis();
  std::unique_ptr<FaultWatch> faults_;
  int64_t evaluated_step_ = -1, sampled_step_ = -1;  // last steps with each
  bool left_out_ = false;            // an evaluation or samples were skipped because of a stop
  std::optional<double> best_loss_;  // of the last evaluation, if its model is to be kept
  Nanos training_ns_before_ = 0;     // of earlier processes
  Nanos training_ns_ = 0;            // of this process's steps
  Nanos start_ns_ = 0;
  std::vector<int64_t> peak_bytes_;  // by device, of this process's steps
  // For the share of the GPUs' peak; 0 if that is unknown.
  double macs_per_sample_ = 0, peak_macs_per_second_ = 0;
  RunningMean loss_;
  TrainerResult result_;
};

}  // namespace

absl::StatusOr<TrainerResult> Train(const TrainerOptions& options,
                                    const std::function<void(const std::string&)>& say) {
  return Trainer(options, say).Run();
}

absl::Status TrainAsFollower(const TrainerOptions& options) {
  const auto nothing = [](const auto&...) {};
  DPIPE_ASSIGN_OR_RETURN(const auto run, TrainingRun::Create(options, nothing, nothing));
  const StopSender stop(options.setup.processes);
  return run->session().Follow();
}

}  // namespace dpipe::tools

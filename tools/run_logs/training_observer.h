// Events of a training run, and the interface of their observers: logs, TensorBoard, the terminal.
#ifndef DPIPE_TOOLS_RUN_LOGS_TRAINING_OBSERVER_H_
#define DPIPE_TOOLS_RUN_LOGS_TRAINING_OBSERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe::tools {

struct RunStart {
  std::string model;  // its name
  std::string strategy;
  std::string config;      // the run's, as text
  int64_t first_step = 0;  // steps done before, if the run resumes
  int64_t num_steps = 0;   // the run's total
  int global_batch = 0;
  int num_devices = 0;
  int64_t training_samples = 0;    // in the data set
  int64_t evaluation_samples = 0;  // held out; 0: none
  uint64_t seed = 0;
};

struct StepReport {
  int64_t step = 0;  // from 1
  double loss = 0;
  double mean_loss = 0;   // over recent steps, as printed
  double grad_norm = -1;  // over all stages, before clipping; negative if it is not computed
  double learning_rate = 0;
  double images_per_second = 0;
  double seconds = 0;    // of this step
  double elapsed_s = 0;  // since training began, including pauses
  double epoch = 0;      // number of passes over the data set
  // By device of the run: maximum bytes in tensors at a time, up to this step.
  std::vector<int64_t> peak_memory_bytes;
  // The model's work in this step per second, divided by the bf16 peak of all GPUs; 0 if unknown.
  double share_of_peak = 0;
};

// Losses on held-out samples at fixed timesteps.
struct EvaluationReport {
  int64_t step = 0;     // number of steps done
  std::string weights;  // "average" or "trained"
  std::vector<double> quantiles;
  std::vector<double> losses;  // one per quantile
  double mean = 0;
  double epoch = 0;
  double seconds = 0;
};

struct SamplesReport {
  int64_t step = 0;
  std::string path;
  const Image* grid = nullptr;
};

struct RunEnd {
  int64_t steps = 0;
  int64_t samples = 0;
  std::string stopped_by;  // "" if all steps were done
  absl::Status status;
};

// Receives events one at a time. OnStep is called on a thread of its own, while the others wait.
// Data that cannot be written is kept for later, and Flush returns the error.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;

  virtual void OnStart(const RunStart& start) {}
  virtual void OnStep(const StepReport& step) {}
  virtual void OnEvaluation(const EvaluationReport& evaluation) {}
  virtual void OnSamples(const SamplesReport& samples) {}
  virtual void OnEnd(const RunEnd& end) {}
  // Writes everything so far. Returns an error if something could not be written; the next call
  // tries again.
  virtual absl::Status Flush() { return absl::OkStatus(); }
};

// Forwards events to several observers.
class TrainingObservers : public TrainingObserver {
 public:
  void Add(std::unique_ptr<TrainingObserver> observer) {
    observers_.push_back(std::move(observer));
  }

  void OnStart(const RunStart& start) override {
    for (const auto& observer : observers_) observer->OnStart(start);
  }
  void OnStep(const StepReport& step) override {
    for (const auto& observer : observers_) observer->OnStep(step);
  }
  void OnEvaluation(const EvaluationReport& evaluation) override {
    for (const auto& observer : observers_) observer->OnEvaluation(evaluation);
  }
  void OnSamples(const SamplesReport& samples) override {
    for (const auto& observer : observers_) observer->OnSamples(samples);
  }
  void OnEnd(const RunEnd& end) override {
    for (const auto& observer : observers_) observer->OnEnd(end);
  }
  // Returns the first error.
  absl::Status Flush() override {
    absl::Status first;
    for (const auto& observer : observers_) first.Update(observer->Flush());
    return first;
  }

 private:
  std::vector<std::unique_ptr<TrainingObserver>> observers_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_LOGS_TRAINING_OBSERVER_H_

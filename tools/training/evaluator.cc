#include "tools/training/evaluator.h"

#include "core/base/time.h"

namespace dpipe::tools {
namespace {

// Seeds the noise. The same in every run, so that runs can be compared.
constexpr uint64_t kEvaluationSeed = 0;

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(models::TrainingSetup* setup,
                                                             const std::vector<double>& quantiles) {
  auto evaluator = std::unique_ptr<Evaluator>(new Evaluator());
  DPIPE_RETURN_IF_ERROR(setup->model().LoadAllFrozen());
  evaluator->setup_ = setup;
  evaluator->quantiles_ = quantiles;
  HeldOutLossOptions options;
  options.model = &setup->model().model();  // its default size, whatever sizes training uses
  options.frozen_parameters = setup->model().frozen_parameters();
  options.num_samples = setup->held_out()->options().global_batch;
  options.compute_dtype = setup->job().compute_dtype;
  models::InputsOptions drawing = setup->inputs_options();
  drawing.seed = kEvaluationSeed;
  drawing.caption_drop = 0;
  for (double quantile : quantiles) {
    drawing.timestep_quantiles = {quantile};
    DPIPE_ASSIGN_OR_RETURN(auto inputs, setup->model().MakeInputs(setup->held_out(), drawing));
    options.inputs.push_back(inputs.get());
    evaluator->inputs_.push_back(std::move(inputs));
  }
  DPIPE_ASSIGN_OR_RETURN(evaluator->loss_, HeldOutLoss::Create(options));
  return evaluator;
}

absl::StatusOr<EvaluationReport> Evaluator::Evaluate(const models::NamedTensors& weights,
                                                     const std::string& name, int64_t step,
                                                     double epoch, LongTask* task,
                                                     TrainingObserver* observer) {
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(
      const HeldOutLosses losses,
      loss_->Evaluate(
          weights, setup_->workers(), [task](double done) { task->OnProgress(done); },
          [task] { return task->should_stop(); }));
  EvaluationReport report;
  report.step = step;
  report.weights = name;
  report.quantiles = quantiles_;
  report.losses = losses.by_quantile;
  report.mean = losses.mean;
  report.epoch = epoch;
  report.seconds = static_cast<double>(MonotonicNow() - start) / kNanosPerSecond;
  observer->OnEvaluation(report);
  return report;
}

}  // namespace dpipe::tools

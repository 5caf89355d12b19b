#include "bench/comparison/contender.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/report/results/results.h"
#include "core/report/statistics/stats.h"
#include "core/schedule/trace_stats.h"

namespace dpipe::bench {

namespace {

// Enough to keep one near the final median, although the median moves as turns are added.
constexpr size_t kKept = 8;

}  // namespace

void TypicalTurn::Add(double step_ms, Trace trace) {
  all_step_ms_.push_back(step_ms);
  kept_.push_back({step_ms, std::move(trace)});
  if (kept_.size() <= kKept) return;
  const double median = report::Median(all_step_ms_);
  kept_.erase(std::max_element(kept_.begin(), kept_.end(), [=](const Turn& a, const Turn& b) {
    return std::abs(a.step_ms - median) < std::abs(b.step_ms - median);
  }));
}

Trace TypicalTurn::Take(double step_ms) {
  if (kept_.empty()) return Trace();
  const auto nearest =
      std::min_element(kept_.begin(), kept_.end(), [=](const Turn& a, const Turn& b) {
        return std::abs(a.step_ms - step_ms) < std::abs(b.step_ms - step_ms);
      });
  Trace trace = std::move(nearest->trace);
  kept_.erase(nearest);
  return trace;
}

namespace {

std::vector<StreamEvent> EventsOf(const Trace& trace) {
  std::vector<StreamEvent> events;
  for (const TraceEvent& event : trace.events()) {
    events.push_back({event.rank(), event.stream(), event.step(), event.instruction(),
                      event.start_ns(), event.end_ns()});
  }
  return events;
}

void KeepFirst(int count, google::protobuf::RepeatedField<double>* values) {
  if (values->size() > count) values->Truncate(count);
}

void KeepFirst(int count, std::vector<double>* values) {
  if (values->size() > static_cast<size_t>(count)) values->resize(count);
}

}  // namespace

absl::Status AddTurn(const ComparisonOptions& options, RunResult run, Contender* contender) {
  StrategyResult& result = contender->result;
  std::vector<double> step_ms;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const StepResult& step = run.steps[i];
    result.add_losses(step.loss);
    if (step.grad_norm >= 0) result.add_gradient_norms(step.grad_norm);
    if (i < static_cast<size_t>(options.warmup_steps)) continue;
    step_ms.push_back(static_cast<double>(step.duration_ns) / kNanosPerMilli);
  }
  result.mutable_step_ms()->Add(step_ms.begin(), step_ms.end());
  // The turn's throughput is that of its median step, so that one disturbed step has no effect.
  const double median_ms = report::Median(step_ms);
  result.add_images_per_second(1000.0 * options.global_batch / median_ms);
  DPIPE_ASSIGN_OR_RETURN(const TraceStats stats,
                         ComputeTraceStats(contender->outcome.plan, EventsOf(run.trace),
                                           options.warmup_steps, /*skip_last=*/false));
  contender->bubble_ratios.push_back(stats.bubble_ratio);
  auto& peaks = *result.mutable_peak_memory_bytes();
  peaks.Resize(static_cast<int>(run.peak_memory_bytes.size()), 0);
  for (int i = 0; i < peaks.size(); ++i) peaks[i] = std::max(peaks[i], run.peak_memory_bytes[i]);
  DPIPE_RETURN_IF_ERROR(
      contender->work_times.Add(run.trace, {options.warmup_steps, options.steps}));
  contender->traces.Add(median_ms, std::move(run.trace));
  return absl::OkStatus();
}

void KeepTurns(int turns, const ComparisonOptions& options, Contender* contender) {
  StrategyResult& result = contender->result;
  KeepFirst(turns, result.mutable_images_per_second());
  KeepFirst(turns, &contender->bubble_ratios);
  KeepFirst(turns * options.steps, result.mutable_step_ms());
  const int all_steps = turns * (options.warmup_steps + options.steps);
  KeepFirst(all_steps, result.mutable_losses());
  KeepFirst(all_steps, result.mutable_gradient_norms());
}

absl::Status SummarizeTurns(Contender* contender) {
  StrategyResult& result = contender->result;
  result.set_bubble_ratio_measured(report::Median(contender->bubble_ratios));
  contender->outcome.measured = contender->traces.Take(report::MedianStepMs(result));
  return SetIdleByReason(contender->outcome.measured, &result);
}

}  // namespace dpipe::bench

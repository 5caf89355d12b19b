#include "bench/comparison/contender.h"

#include <algorithm>
#include <utility>

#include "core/report/stats.h"
#include "core/schedule/trace_stats.h"

namespace dpipe::bench {
namespace {

std::vector<StreamEvent> EventsOf(const Trace& trace) {
  std::vector<StreamEvent> events;
  for (const TraceEvent& event : trace.events()) {
    events.push_back({event.rank(), event.stream(), event.step(), event.instruction(),
                      event.start_ns(), event.end_ns()});
  }
  return events;
}

template <typename T>
void KeepFirst(size_t count, std::vector<T>* values) {
  if (values->size() > count) values->resize(count);
}

}  // namespace

absl::Status AddTurn(const ComparisonOptions& options, RunResult run, Contender* contender) {
  report::StrategyResult& result = contender->result;
  std::vector<double> step_ms;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const StepResult& step = run.steps[i];
    result.losses.push_back(step.loss);
    if (step.grad_norm >= 0) result.gradient_norms.push_back(step.grad_norm);
    if (i < static_cast<size_t>(options.warmup_steps)) continue;
    step_ms.push_back(static_cast<double>(step.duration_ns) / kNanosPerMilli);
  }
  result.step_ms.insert(result.step_ms.end(), step_ms.begin(), step_ms.end());
  // The turn's throughput is that of its median step, so that one disturbed step has no effect.
  const double median_ms = report::Median(step_ms);
  result.images_per_second.push_back(1000.0 * options.global_batch / median_ms);
  DPIPE_ASSIGN_OR_RETURN(const TraceStats stats,
                         ComputeTraceStats(contender->outcome.plan, EventsOf(run.trace),
                                           options.warmup_steps, /*skip_last=*/false));
  contender->bubble_ratios.push_back(stats.bubble_ratio);
  result.peak_memory_bytes.resize(run.peak_memory_bytes.size());
  for (size_t i = 0; i < run.peak_memory_bytes.size(); ++i) {
    result.peak_memory_bytes[i] = std::max(result.peak_memory_bytes[i], run.peak_memory_bytes[i]);
  }
  DPIPE_RETURN_IF_ERROR(
      contender->work_times.Add(run.trace, {options.warmup_steps, options.steps}));
  contender->traces.Add(median_ms, std::move(run.trace));
  return absl::OkStatus();
}

void KeepTurns(int turns, const ComparisonOptions& options, Contender* contender) {
  const auto count = static_cast<size_t>(turns);
  KeepFirst(count, &contender->result.images_per_second);
  KeepFirst(count, &contender->bubble_ratios);
  KeepFirst(count * options.steps, &contender->result.step_ms);
  const size_t all_steps = count * (options.warmup_steps + options.steps);
  KeepFirst(all_steps, &contender->result.losses);
  KeepFirst(all_steps, &contender->result.gradient_norms);
}

absl::Status SummarizeTurns(Contender* contender) {
  report::StrategyResult& result = contender->result;
  result.bubble_ratio_measured = report::Median(contender->bubble_ratios);
  contender->outcome.measured = contender->traces.Take(result.MedianStepMs());
  DPIPE_ASSIGN_OR_RETURN(result.idle_by_reason, IdleByReason(contender->outcome.measured));
  return absl::OkStatus();
}

}  // namespace dpipe::bench

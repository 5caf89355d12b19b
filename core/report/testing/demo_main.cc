// Writes a sample report of synthetic traces to a folder:
//   bazel run //core/report/testing:demo -- /tmp/demo
// It contains report.html, results.json, and a timeline (.svg) and a trace (.json) for each
// strategy and number of devices.
#include <cmath>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/report/machine.h"
#include "core/report/page/results_page.h"
#include "core/report/results/results.h"
#include "core/report/results/results_table.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/perfetto.h"
#include "core/report/timeline/timeline_svg.h"

namespace dpipe::report {
namespace {

constexpr const char* kStrategies[] = {"data_parallel", "gpipe", "1f1b", "diffusionpipe"};

absl::StatusOr<StrategyResult> MakeResult(const Trace& trace) {
  const Plan& plan = trace.plan();
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  StrategyResult result;
  result.set_strategy(plan.strategy());
  result.set_is_unfilled_pipeline(plan.strategy() == "gpipe" || plan.strategy() == "1f1b");
  for (int step = 0; step < index.num_steps(); ++step) {
    const double step_ns = static_cast<double>(index.StepEnd(step) - index.StepStart(step));
    result.add_step_ms(step_ns / kNanosPerMilli);
    result.add_images_per_second(plan.global_batch() * kNanosPerSecond / step_ns);
  }
  result.set_bubble_ratio_measured(BubbleRatio(DeviceTimes(index, index.SteadySteps())));
  result.set_bubble_ratio_predicted(plan.prediction().bubble_ratio());
  result.set_step_ms_predicted(static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli);
  result.set_step_ms_bound(result.step_ms_predicted() * (1 - result.bubble_ratio_predicted()));
  *result.mutable_peak_memory_bytes() = trace.peak_memory_bytes();
  RandomStream random(7, 0, 0, RandomPurpose::kTest);
  for (int step = 0; step < 40; ++step) {
    const double difference = plan.strategy() == "data_parallel" ? 1e-7 * (step % 3) : 0;
    result.add_losses(0.4 + 0.7 * std::exp(-step / 9.0) + 0.04 * random.NextUniform() + difference);
  }
  PlanSummary& summary = *result.mutable_plan();
  summary.set_num_stages(plan.stages_size());
  summary.set_num_micro_batches(plan.num_micro_batches());
  summary.set_micro_batch_size(plan.micro_batch_size());
  return result;
}

absl::Status WriteDemo(const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  for (const int num_devices : {2, 4}) {
    Results all;
    all.set_benchmark("sd_pipeline");
    CaseResult& results = *all.add_cases();
    results.set_model("tiny_sd");
    results.set_backend("cpu");
    results.set_dtype("fp32");
    results.set_num_devices(num_devices);
    results.set_global_batch(32);
    results.set_created("2026-01-31T12:00:00Z");
    results.set_command_line(absl::StrCat("sd_pipeline --devices=", num_devices, " --steps=6"));
    *results.mutable_machine() = CollectMachineInfo();
    (*results.mutable_versions())["oneDNN"] = "2.7.3";
    (*results.mutable_flags())["steps"] = "6";
    std::vector<Trace> measured, predicted;
    for (const char* strategy : kStrategies) {
      measured.push_back(MakeSyntheticTrace({strategy, num_devices, 4, 7, 0.04, 1}));
      predicted.push_back(MakeSyntheticTrace({strategy, num_devices, 4, 4, 0, 1}));
    }
    std::vector<StrategyTraces> traces;
    for (size_t i = 0; i < measured.size(); ++i) {
      const std::string name = absl::StrCat(kStrategies[i], "_", num_devices);
      traces.push_back({kStrategies[i], &measured[i], &predicted[i]});
      DPIPE_ASSIGN_OR_RETURN(StrategyResult result, MakeResult(measured[i]));
      *results.add_strategies() = std::move(result);
      DPIPE_ASSIGN_OR_RETURN(const std::string svg, TimelineSvg(measured[i], name));
      DPIPE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", name, ".svg"), svg));
      DPIPE_ASSIGN_OR_RETURN(const std::string perfetto, PerfettoJson(measured[i]));
      DPIPE_RETURN_IF_ERROR(
          WriteFileAtomically(absl::StrCat(folder, "/", name, ".trace.json"), perfetto));
    }
    std::cout << ResultsText(all) << "\n";
    const std::string suffix = num_devices == 2 ? "" : absl::StrCat("_", num_devices);
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/results", suffix, ".json"), ResultsToJson(all)));
    DPIPE_ASSIGN_OR_RETURN(const std::string html, ResultsPage(all, {traces}));
    DPIPE_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/report", suffix, ".html"), html));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::report

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: demo FOLDER\n";
    return 2;
  }
  const absl::Status status = dpipe::report::WriteDemo(argv[1]);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

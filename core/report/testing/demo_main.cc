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
#include "core/report/page/html_report.h"
#include "core/report/results_table.h"
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
  result.strategy = plan.strategy();
  result.is_unfilled_pipeline = plan.strategy() == "gpipe" || plan.strategy() == "1f1b";
  for (int step = 0; step < index.num_steps(); ++step) {
    const double step_ns = static_cast<double>(index.StepEnd(step) - index.StepStart(step));
    result.step_ms.push_back(step_ns / kNanosPerMilli);
    result.images_per_second.push_back(plan.global_batch() * kNanosPerSecond / step_ns);
  }
  result.bubble_ratio_measured = BubbleRatio(DeviceTimes(index, index.SteadySteps()));
  result.bubble_ratio_predicted = plan.prediction().bubble_ratio();
  result.step_ms_predicted = static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli;
  result.step_over_bound = 1.01 / (1 - result.bubble_ratio_measured);
  result.peak_memory_bytes.assign(trace.peak_memory_bytes().begin(),
                                  trace.peak_memory_bytes().end());
  RandomStream random(7, 0, 0, RandomPurpose::kTest);
  for (int step = 0; step < 40; ++step) {
    result.losses.push_back(0.4 + 0.7 * std::exp(-step / 9.0) + 0.04 * random.NextUniform());
    if (plan.strategy() == "data_parallel") result.losses.back() += 1e-7 * (step % 3);
  }
  result.plan = {plan.stages_size(), plan.num_micro_batches(), plan.micro_batch_size(),
                 plan.devices_per_pipeline(), ""};
  return result;
}

absl::Status WriteDemo(const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  for (const int num_devices : {2, 4}) {
    BenchResults results;
    results.benchmark = "sd_pipeline";
    results.model = "tiny_sd";
    results.backend = "cpu";
    results.dtype = "fp32";
    results.num_devices = num_devices;
    results.global_batch = 32;
    results.created = "2026-01-31T12:00:00Z";
    results.command_line = absl::StrCat("sd_pipeline --devices=", num_devices, " --steps=6");
    results.machine = CollectMachineInfo();
    results.versions = {{"oneDNN", "2.7.3"}, {"protobuf", "3.21.12"}};
    results.flags = {
        {"devices", absl::StrCat(num_devices)}, {"steps", "6"}, {"data", "(built in)"}};
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
      results.results.push_back(std::move(result));
      DPIPE_ASSIGN_OR_RETURN(const std::string svg, TimelineSvg(measured[i], name));
      DPIPE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", name, ".svg"), svg));
      DPIPE_ASSIGN_OR_RETURN(const std::string perfetto, PerfettoJson(measured[i]));
      DPIPE_RETURN_IF_ERROR(
          WriteFileAtomically(absl::StrCat(folder, "/", name, ".trace.json"), perfetto));
    }
    ComputeSpeedups(&results);
    std::cout << ResultsTable(results).ToText() << "\n";
    const std::string suffix = num_devices == 2 ? "" : absl::StrCat("_", num_devices);
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/results", suffix, ".json"),
                                              ResultsToJson(results)));
    DPIPE_ASSIGN_OR_RETURN(const std::string html, HtmlReport(results, traces));
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

// Plans and simulates the steps from DiffusionPipe's published filling to this project's.
//   bazel run -c opt //bench:fill_ablation
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/simulated/paper_cases.h"
#include "bench/simulated/paper_grid.h"
#include "core/base/files/run_paths.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "gflags/gflags.h"

DEFINE_string(models, "",
              "file names of profiles, separated by commas; empty: all with frozen work");
DEFINE_string(profiles, "", "folder of modelled profiles; empty: data/profiles/modelled");
DEFINE_string(clusters, "", "folder of clusters; empty: data/clusters");

namespace dpipe::bench {
namespace {

std::vector<std::string> Models() {
  if (FLAGS_models.empty()) return {};
  return absl::StrSplit(FLAGS_models, ',', absl::SkipWhitespace());
}

std::string Milliseconds(Nanos ns) {
  return absl::StrFormat("%.2f", static_cast<double>(ns) / 1e6);
}

void Print(const GridResult& result) {
  for (const Outcome& outcome : result.outcomes) {
    std::printf("%s,%s,%d,%s,%s,\"%s\",%.3f,%s,%.4f,%.4f,%d,%d,%d,\"%s\"\n", result.model.c_str(),
                result.cluster.c_str(), result.global_batch,
                result.num_stages > 0 ? "given" : "free", outcome.label.c_str(),
                outcome.spec.c_str(), outcome.images_per_second,
                Milliseconds(outcome.step_ns).c_str(), outcome.bubble_ratio,
                outcome.unfilled_bubble_ratio, outcome.num_stages, outcome.num_micro_batches,
                outcome.devices_per_pipeline, outcome.refusal.c_str());
  }
  std::fflush(stdout);
}

// Geometric means over the cases in which every step has a plan.
void PrintSummary(const std::vector<GridResult>& results) {
  for (const bool is_given : {false, true}) {
    const std::vector<GridEntry> steps = FillSteps();
    std::vector<double> sums(steps.size(), 0);
    std::vector<double> least(steps.size(), 1e9), most(steps.size(), 0);
    int count = 0;
    for (const GridResult& result : results) {
      if ((result.num_stages > 0) != is_given) continue;
      bool all = true;
      for (const Outcome& outcome : result.outcomes) all &= outcome.planned();
      if (!all) continue;
      ++count;
      for (size_t i = 0; i < steps.size(); ++i) {
        const double gain =
            result.outcomes[i].images_per_second / result.outcomes[0].images_per_second;
        sums[i] += std::log(gain);
        least[i] = std::min(least[i], gain);
        most[i] = std::max(most[i], gain);
      }
    }
    if (count == 0) continue;
    std::printf("\n# Simulated images/s over those of \"%s\", S and M %s, %d cases:\n",
                steps[0].label.c_str(), is_given ? "given" : "free", count);
    for (size_t i = 0; i < steps.size(); ++i) {
      std::printf("# %-34s %.3f on average, %.3f to %.3f\n", steps[i].label.c_str(),
                  std::exp(sums[i] / count), least[i], most[i]);
    }
  }
}

absl::Status Run() {
  GridOptions options;
  if (!FLAGS_profiles.empty()) options.profiles_folder = UserPath(FLAGS_profiles);
  if (!FLAGS_clusters.empty()) options.clusters_folder = UserPath(FLAGS_clusters);
  std::printf(
      "# Simulated plans of modelled profiles; nothing is measured. Each step adds one difference "
      "to\n# the step above it, from the published filling to this project's.\n"
      "model,cluster,global_batch,s_and_m,step,strategy,images_per_s,step_ms,idle,idle_unfilled,"
      "stages,micro_batches,devices_per_pipeline,refusal\n");
  DPIPE_ASSIGN_OR_RETURN(
      const std::vector<GridResult> results,
      RunGrid(options, FillCases(Models()), {},
              [](const std::vector<GridResult>&, size_t, const GridResult& last) {
                Print(last);
                return absl::OkStatus();
              }));
  PrintSummary(results);
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "fill_ablation",
      "Plans and simulates the steps from DiffusionPipe's published filling to this project's, "
      "and\n"
      "writes CSV to standard output. Takes minutes.\n"
      "  bazel run -c opt //bench:fill_ablation -- --models=stable_diffusion_v2_1_512\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::bench::Run);
}

// Plans and simulates strategies with one option left out at a time, and the steps from
// DiffusionPipe's published filling to this project's strategy.
//   bazel run -c opt //bench:ablation
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "bench/simulated/paper_cases.h"
#include "bench/simulated/paper_grid.h"
#include "bench/simulated/planner_grid.h"
#include "core/base/files/run_paths.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/command_line/command_line.h"
#include "core/planner/plan_options.h"
#include "gflags/gflags.h"

DEFINE_bool(steps, false,
            "the steps from the published filling to opendiffusionpipe, instead of options");
DEFINE_string(models, "",
              "file names of profiles, separated by commas; empty: all of the grid (--steps: all "
              "with frozen work)");
DEFINE_string(clusters, "",
              "file names of clusters, separated by commas; empty: all of the grid; with --steps, "
              "a folder of clusters; empty: data/clusters");
DEFINE_string(profiles, "",
              "with --steps, a folder of modelled profiles; empty: data/profiles/modelled");

namespace dpipe::bench {
namespace {

std::vector<std::string> ListOf(const std::string& flag) {
  return absl::StrSplit(flag, ',', absl::SkipEmpty());
}

bool IsListed(const std::string& flag, const std::string& name) {
  const std::vector<std::string> listed = ListOf(flag);
  return listed.empty() || std::count(listed.begin(), listed.end(), name) > 0;
}

// ---- One option left out at a time.

// Strategies of different kinds.
constexpr const char* kStrategies[] = {"1f1b", "zb-v", "diffusionpipe", "opendiffusionpipe"};
// Small and large nodes, one and several, with fast and slow links.
constexpr const char* kClusters[] = {"a100_8x1",       "a100_8x2",         "h100_8x1",
                                     "pcie_25gbe_4x4", "rtx4090_4x1_pcie", "a100_2x1_10gbe"};
constexpr const char* kModels[] = {"stable_diffusion_v2_1_512", "controlnet_v1_0_512", "flux_512",
                                   "cdm_lsun_256"};
constexpr int64_t kSmallBudgetPart = 5;

struct Variant {
  const char* left_out;
  const char* change;  // of the strategy's fields
  int64_t budget_part = 1;
};
constexpr Variant kVariants[] = {{"", ""},
                                 {"recomputation", ",recompute=none"},
                                 {"sharding", ",shard=none"},
                                 {"tuning", ",tune=false"},
                                 {"filling", ",frozen=first"},
                                 {"four fifths of the budget", "", kSmallBudgetPart}};

// Returns the strategy that the variant makes of it. All are tuned, so that options are equal.
// Alternatives may state a sharding of their own.
absl::StatusOr<std::string> VariantOf(const std::string& strategy, const Variant& variant) {
  std::string changed = absl::StrCat(strategy, ",tune=true", variant.change);
  if (variant.left_out != std::string("sharding")) return changed;
  DPIPE_ASSIGN_OR_RETURN(const Strategy whole, FindStrategy(strategy));
  std::vector<std::string> schedules;
  for (const absl::string_view schedule : absl::StrSplit(whole.schedule(), '|')) {
    if (!absl::StrContains(schedule, "/zero")) schedules.emplace_back(schedule);
  }
  return absl::StrCat(changed, ",schedule=", absl::StrJoin(schedules, "|"));
}

template <size_t kCount>
bool Contains(const char* const (&names)[kCount], const std::string& name) {
  return std::find(names, names + kCount, name) != names + kCount;
}

// The gains of an option in the cases that have a plan without it.
struct Gains {
  int cases = 0, refused = 0;
  double sum = 0, least = 1e9, most = 0;
};

absl::Status RunOptions() {
  std::printf(
      "# Simulated plans of modelled profiles; nothing is measured.\n"
      "cluster,model,global_batch,strategy,left_out,samples_per_s,planning_s,plan\n");
  std::map<std::pair<std::string, std::string>, Gains> all;
  for (const GridPoint& point : PlannerGrid()) {
    if (!Contains(kClusters, point.cluster) || !Contains(kModels, point.model)) continue;
    if (!IsListed(FLAGS_clusters, point.cluster) || !IsListed(FLAGS_models, point.model)) continue;
    DPIPE_ASSIGN_OR_RETURN(const GridPlanner planner, GridPlanner::Read(point));
    for (const std::string strategy : kStrategies) {
      double whole = 0;
      for (const Variant& variant : kVariants) {
        const bool fills = strategy == "diffusionpipe" || strategy == "opendiffusionpipe";
        if (variant.left_out == std::string("filling") && !fills) continue;
        DPIPE_ASSIGN_OR_RETURN(const std::string changed, VariantOf(strategy, variant));
        DPIPE_ASSIGN_OR_RETURN(const GridAnswer answer,
                               planner.Plan(changed, point.global_batch,
                                            PlanOptions().simulation_budget / variant.budget_part));
        std::printf("%s,%s,%d,%s,%s,%.4f,%.2f,\"%s\"\n", point.cluster.c_str(), point.model.c_str(),
                    point.global_batch, strategy.c_str(), variant.left_out, answer.throughput,
                    answer.planning_s, answer.plan.c_str());
        std::fflush(stdout);
        if (*variant.left_out == 0) whole = answer.throughput;
        if (*variant.left_out == 0 || whole == 0) continue;
        Gains& gains = all[{strategy, variant.left_out}];
        if (answer.throughput == 0) {
          ++gains.refused;
          continue;
        }
        ++gains.cases;
        const double gain = whole / answer.throughput;
        gains.sum += std::log(gain);
        gains.least = std::min(gains.least, gain);
        gains.most = std::max(gains.most, gain);
      }
    }
  }
  std::printf(
      "\n# Throughput over that without the option: geometric mean, minimum and maximum; cases "
      "that fit only with it:\n");
  for (const auto& [key, gains] : all) {
    std::printf("# %s, %s: ", key.first.c_str(), key.second.c_str());
    if (gains.cases > 0) {
      std::printf("%.4f, %.4f to %.4f of %d cases; ", std::exp(gains.sum / gains.cases),
                  gains.least, gains.most, gains.cases);
    }
    std::printf("%d\n", gains.refused);
  }
  return absl::OkStatus();
}

// ---- The steps from the published filling.

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

absl::Status RunSteps() {
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
      RunGrid(options, FillCases(ListOf(FLAGS_models)), {},
              [](const std::vector<GridResult>&, size_t, const GridResult& last) {
                Print(last);
                return absl::OkStatus();
              }));
  PrintSummary(results);
  return absl::OkStatus();
}

absl::Status Run() { return FLAGS_steps ? RunSteps() : RunOptions(); }

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "ablation",
      "Plans and simulates strategies with one option left out at a time, or the steps from\n"
      "DiffusionPipe's published filling to this project's, and writes CSV to standard output.\n"
      "Takes hours on one core.\n"
      "  bazel run -c opt //bench:ablation -- --clusters=a100_8x1\n"
      "  bazel run -c opt //bench:ablation -- --steps --models=stable_diffusion_v2_1_512\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::bench::Run);
}

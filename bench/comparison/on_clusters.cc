#include "bench/comparison/on_clusters.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/comparison/simulated_comparison.h"
#include "core/base/files/run_paths.h"
#include "core/proto/cluster.pb.h"
#include "core/report/results/results.h"
#include "core/report/table.h"
#include "core/schedule/file_formats/plan_io.h"

namespace dpipe::bench {
namespace {

// The strongest rivals of pipelines, which every table contains.
constexpr const char* kUnpipelined[] = {"data_parallel", "zero1", "zero3"};

bool IsUnpipelined(const std::string& strategy) {
  return std::find(std::begin(kUnpipelined), std::end(kUnpipelined), strategy) !=
         std::end(kUnpipelined);
}

// Returns the fastest of kUnpipelined; nullptr if none has a plan.
const StrategyResult* BestUnpipelined(const CaseResult& results) {
  const StrategyResult* best = nullptr;
  for (const StrategyResult& result : results.strategies()) {
    if (!IsUnpipelined(result.strategy()) || !report::Counts(result)) continue;
    if (best == nullptr || result.images_per_second(0) > best->images_per_second(0)) {
      best = &result;
    }
  }
  return best;
}

std::string BestText(const CaseResult& results) {
  const StrategyResult* best = BestUnpipelined(results);
  if (best == nullptr) return "-";
  return absl::StrFormat("%.*f, %s", best->images_per_second(0) < 100 ? 1 : 0,
                         best->images_per_second(0), best->strategy());
}

// Returns "1.14x", or the throughput itself if nothing else fits.
std::string RelativeText(const CaseResult& results, const std::string& strategy) {
  const StrategyResult* result = report::FindStrategyResult(results, strategy);
  if (result == nullptr || !report::Counts(*result)) return "-";
  const StrategyResult* best = BestUnpipelined(results);
  if (best == nullptr) return absl::StrFormat("%.1f img/s", result->images_per_second(0));
  return absl::StrFormat("%.2fx", result->images_per_second(0) / best->images_per_second(0));
}

std::string ClusterName(const CaseResult& results) {
  return std::filesystem::path(results.flags().at("cluster")).stem().string();
}

}  // namespace

std::vector<std::string> DefaultClusters() {
  return {"a100_8x1", "a100_8x8", "rtx4090_4x1_pcie", "rtx4090_2x1_10gbe"};
}

absl::StatusOr<Results> SimulateOnClusters(const OnClustersOptions& options) {
  Results results;
  results.set_benchmark("on clusters");
  SimulatedComparisonOptions simulated;
  simulated.model = options.model;
  simulated.profile_path = ProgramDataPath(
      absl::StrCat("data/profiles/modelled/a100_80gb/", options.model, ".textproto"));
  simulated.comparison.stop_requested = options.stop_requested;
  simulated.comparison.strategies = {std::begin(kUnpipelined), std::end(kUnpipelined)};
  for (const std::string& strategy : options.strategies) {
    if (!IsUnpipelined(strategy)) simulated.comparison.strategies.push_back(strategy);
  }
  for (const std::string& cluster : options.clusters) {
    simulated.cluster_path = ProgramDataPath(absl::StrCat("data/clusters/", cluster, ".textproto"));
    ClusterSpec spec;
    DPIPE_RETURN_IF_ERROR(ReadTextProto(simulated.cluster_path, &spec));
    simulated.comparison.global_batch =
        options.device_batch * spec.num_nodes() * spec.devices_per_node();
    DPIPE_ASSIGN_OR_RETURN(Comparison comparison, CompareBySimulation(simulated));
    comparison.results.set_id(cluster);
    *results.add_cases() = std::move(comparison.results);
  }
  return results;
}

std::string OnClustersText(const Results& results) {
  if (results.cases().empty()) return "";
  std::vector<std::string> headers = {"strategy"};
  std::vector<std::string> best = {"fastest without pipeline"};
  for (const CaseResult& one : results.cases()) {
    headers.push_back(ClusterName(one));
    best.push_back(BestText(one));
  }
  report::Table table(headers);
  table.AddRow(best);
  for (const StrategyResult& result : results.cases(0).strategies()) {
    if (IsUnpipelined(result.strategy())) continue;
    std::vector<std::string> row = {result.strategy()};
    for (const CaseResult& one : results.cases()) {
      row.push_back(RelativeText(one, result.strategy()));
    }
    table.AddRow(row);
  }
  const CaseResult& first = results.cases(0);
  return absl::StrCat(
      "Simulated, nothing measured: ", first.model(), ", ",
      first.global_batch() / first.num_devices(),
      " images per device, by a modelled A100 profile on clusters of "
      "data/clusters.\nFirst the images per second of the fastest of data_parallel, "
      "zero1 and zero3, then the others' over it.\n\n",
      table.ToText());
}

}  // namespace dpipe::bench

// The strategies of a benchmark on clusters that are not at hand, simulated: a small machine's
// measurements say little about where pipelines pay.
#ifndef DPIPE_BENCH_COMPARISON_ON_CLUSTERS_H_
#define DPIPE_BENCH_COMPARISON_ON_CLUSTERS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/results.pb.h"

namespace dpipe::bench {

struct OnClustersOptions {
  std::string model;     // name of a modelled profile: "stable_diffusion_v2_1_512"
  int device_batch = 8;  // images per device
  std::vector<std::string> strategies;
  std::vector<std::string>
      clusters;  // names of files in data/clusters, with A100 or slower devices
  // As ComparisonOptions.stop_requested.
  std::function<std::string()> stop_requested;
};

// Returns 8 and 64 A100, 4 cards of 24 GB on PCIe, and 2 nodes of such a card over 10 Gb/s.
std::vector<std::string> DefaultClusters();

// Plans and simulates the strategies on each cluster, and always data_parallel, zero1 and zero3.
// Returns a case per cluster. Returns Cancelled if a stop was requested.
absl::StatusOr<Results> SimulateOnClusters(const OnClustersOptions& options);

// Returns a table with a column per cluster: images per second of the best of data_parallel, zero1
// and zero3, then every other strategy relative to it; "-" if it has no plan there. A sentence
// before it says that nothing was measured.
std::string OnClustersText(const Results& results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_ON_CLUSTERS_H_

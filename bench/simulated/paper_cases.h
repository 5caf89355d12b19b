// The cases of the tables: the comparison of strategies, and the combined grid, which compares
// filled zero-bubble and V schedules with filled 1F1B.
#ifndef DPIPE_BENCH_SIMULATED_PAPER_CASES_H_
#define DPIPE_BENCH_SIMULATED_PAPER_CASES_H_

#include <string>
#include <vector>

#include "bench/simulated/paper_grid.h"

namespace dpipe::bench {

// A model, its device, and increasing numbers of samples per device.
struct ModelSetup {
  std::string model;
  std::string device;
  std::vector<int> device_batches;
};

// Returns seven models. Those that hardly fit into the 80 GB of an A100 are on H100.
std::vector<ModelSetup> DefaultSetups();

std::vector<GridEntry> DefaultContenders();
// Returns every named strategy.
std::vector<GridEntry> NamedContenders();
// Returns variants of diffusionpipe with a part removed or changed.
std::vector<GridEntry> AblationContenders();

// Returns setups x devices x batches: on 8 devices all batches, and the ablations if asked for; on
// more devices only the smallest and the largest batch.
std::vector<GridCase> ComparisonCases(const std::vector<ModelSetup>& setups,
                                      const std::vector<int>& devices,
                                      const std::vector<GridEntry>& contenders, bool ablations);

// Returns cases of diffusionpipe and opendiffusionpipe on 8 devices for three batches. Both use the
// same depth S = 2, 4, 8, in groups of S devices, and the same M = S, 2S, 4S; a last case per batch
// leaves S and M free.
std::vector<GridCase> CombinedCases(const std::vector<ModelSetup>& setups);
std::vector<ModelSetup> CombinedSetups();

// Returns the steps from DiffusionPipe's published filling, as this project reads it, to
// opendiffusionpipe. Each adds one difference to the one before it; the last but two is
// diffusionpipe.
std::vector<GridEntry> FillSteps();
// Returns the cases that compare these steps on one node: the default setups of these models with
// frozen components (empty: all of them), with free S and M and with two given ones.
std::vector<GridCase> FillCases(const std::vector<std::string>& models);

// Chapters of the report that are maps (win_map.h).
inline constexpr char kLinkSpeedChapter[] = "link_speed";
inline constexpr char kFineTuningChapter[] = "fine_tuning";

// A cluster of a map, and its name there; "\n" begins another line.
struct MapCluster {
  std::string name;  // of a file in data/clusters
  int num_devices = 0;
  std::string label;
};

// Returns 8 A100 by the speed of their links, the slowest first.
std::vector<MapCluster> LinkClusters();
// Returns 2 to 8 cards of 24 GB, and 2 nodes of 8 A100 on a slow network.
std::vector<MapCluster> SmallClusters();

// Returns the strategies that maps compare, the simplest first.
std::vector<GridEntry> MapContenders();

// Returns the cases of the chapter on link speeds for modelled profiles of an A100.
std::vector<GridCase> LinkSpeedCases(const std::vector<std::string>& models,
                                     const std::vector<int>& device_batches);
// Returns the default models of that chapter.
std::vector<std::string> LinkSpeedModels();

inline constexpr int kFineTuningDeviceBatch = 4;
// Returns the cases of the chapter on fine-tuning; `models` are names of tools::FineTuning.
std::vector<GridCase> FineTuningCases(const std::vector<std::string>& models);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PAPER_CASES_H_

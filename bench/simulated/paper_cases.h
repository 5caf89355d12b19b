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

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PAPER_CASES_H_

// Which cases the tables have: the comparison of strategies, and the grid that compares filling
// zero-bubble and V schedules with filling 1F1B.
#ifndef DPIPE_BENCH_PAPER_CASES_H_
#define DPIPE_BENCH_PAPER_CASES_H_

#include <string>
#include <vector>

#include "bench/paper_grid.h"

namespace dpipe::bench {

// A model, what it runs on, and samples a device, rising.
struct ModelSetup {
  std::string model;
  std::string device;
  std::vector<int> device_batches;
};

// Seven models; those that 80 GB of an A100 hold badly are on H100.
std::vector<ModelSetup> DefaultSetups();

std::vector<GridEntry> DefaultContenders();
// Every strategy with a name.
std::vector<GridEntry> NamedContenders();
// diffusionpipe with something taken away or changed.
std::vector<GridEntry> AblationContenders();

// Setups x devices x batches: all batches on 8 devices, where the ablations are too, and the
// smallest and the largest of them on more.
std::vector<GridCase> ComparisonCases(const std::vector<ModelSetup>& setups,
                                      const std::vector<int>& devices,
                                      const std::vector<GridEntry>& contenders, bool ablations);

// diffusionpipe and opendiffusionpipe on 8 devices, at the same depth S in 2, 4, 8, the same M in
// S, 2S, 4S of a group of S devices, and three batches; then with S and M free.
std::vector<GridCase> CombinedCases(const std::vector<ModelSetup>& setups);
std::vector<ModelSetup> CombinedSetups();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_CASES_H_

// Compares strategies on a cluster that is not there, in the same form as what is measured: planned
// and simulated, and, where that is asked for, run by the real runtime on emulated devices.
#ifndef DPIPE_BENCH_SIMULATED_COMPARISON_H_
#define DPIPE_BENCH_SIMULATED_COMPARISON_H_

#include <string>

#include "bench/comparison.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SimulatedComparisonOptions {
  std::string model;  // its name in the results
  std::string profile_path;
  std::string cluster_path;
  // Also emulated (core/emulation/emulate.h), which is then what counts as measured: a step in
  // virtual time, and losses of a model of the profile's structure beside their reference's.
  bool emulate = false;
  // Strategies, batch and micro-batches count; repeats and profiles have no meaning here.
  ComparisonOptions comparison;
};

// Each strategy has one sample, its step: neither is noisy. Every plan passes VerifyPlan; what is
// only simulated has no losses, because nothing is computed. Strategies without a plan are skipped.
// Errors: files that cannot be read, or do not fit each other.
absl::StatusOr<Comparison> CompareBySimulation(const SimulatedComparisonOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_COMPARISON_H_

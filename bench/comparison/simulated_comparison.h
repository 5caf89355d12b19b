// Compares strategies on a cluster that need not exist, with results in the form of measured ones:
// plans and simulates, and optionally runs the plans by the real runtime on emulated devices.
#ifndef DPIPE_BENCH_COMPARISON_SIMULATED_COMPARISON_H_
#define DPIPE_BENCH_COMPARISON_SIMULATED_COMPARISON_H_

#include <string>

#include "bench/comparison/comparison.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SimulatedComparisonOptions {
  std::string model;  // its name in the results
  std::string profile_path;
  std::string cluster_path;
  // Also emulates (core/emulation/emulate.h), and reports the emulation as measured: a step in
  // virtual time, and losses of a model with the profile's structure, compared with a reference.
  bool emulate = false;
  // Only strategies, batch and micro-batches matter; repeats and profiles are ignored.
  ComparisonOptions comparison;
};

// Plans and simulates each strategy. Each has a single sample, its step, because neither simulation
// nor emulation is noisy. Every plan passes VerifyPlan. Strategies that are only simulated have no
// losses, because nothing is computed; those without a plan are skipped. Returns an error if a file
// cannot be read, or if profile and cluster do not fit each other.
absl::StatusOr<Comparison> CompareBySimulation(const SimulatedComparisonOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_SIMULATED_COMPARISON_H_

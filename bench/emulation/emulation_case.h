// One plan, simulated and run by the real runtime on emulated devices.
#ifndef DPIPE_BENCH_EMULATION_EMULATION_CASE_H_
#define DPIPE_BENCH_EMULATION_EMULATION_CASE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/emulation/emulate.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe::bench {

struct EmulationResult {
  std::string model;
  std::string cluster;
  int num_devices = 0;
  int global_batch = 0;
  std::string strategy;
  std::string refusal;  // why there is no plan; empty if there is one
  int num_stages = 0;
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int num_instructions = 0;  // per step, over all ranks

  Nanos simulated_step_ns = 0;
  Nanos emulated_step_ns = 0;
  double simulated_bubble_ratio = 0;
  double emulated_bubble_ratio = 0;
  double loss_error = 0;    // see Emulation
  std::string worst;        // the instruction whose end differs most, and by how much
  std::string first;        // the first instruction at which the two runs differ
  Nanos virtual_ns = 0;     // emulated time, without the prologue
  Nanos real_ns = 0;        // real time for it
  Nanos worst_late_ns = 0;  // maximum lateness of a paced wait

  bool ran() const { return refusal.empty(); }
  // Returns the relative difference of the emulated step; 0.01: one percent longer than simulated.
  double difference() const;
  bool valid() const { return loss_error <= kEmulatedLossTolerance; }
};

// Plans `strategy` for the profile on the cluster, and runs the plan both ways. If the strategy has
// no plan, the result has a refusal. Returns an error for an invalid profile or cluster, and for a
// plan that the runtime cannot run.
absl::StatusOr<EmulationResult> RunEmulationCase(const ModelProfile& profile,
                                                 const ClusterSpec& cluster,
                                                 const std::string& strategy, int global_batch,
                                                 const EmulateOptions& options);

// Does the same for an existing plan.
absl::StatusOr<EmulationResult> CompareWithSimulation(const Plan& plan, const CostModel& cost,
                                                      const EmulateOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_EMULATION_EMULATION_CASE_H_

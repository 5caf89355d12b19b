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
  std::string refusal;  // why there is no plan; empty where there is one
  int num_stages = 0;
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int num_instructions = 0;  // of a step, over all ranks

  Nanos simulated_step_ns = 0;
  Nanos emulated_step_ns = 0;
  double simulated_bubble_ratio = 0;
  double emulated_bubble_ratio = 0;
  double loss_error = 0;    // see Emulation
  std::string worst;        // the instruction whose end differs most, and by how much
  std::string first;        // the one at which the two runs part
  Nanos virtual_ns = 0;     // that were emulated, prologue not counted
  Nanos real_ns = 0;        // that it took here
  Nanos worst_late_ns = 0;  // of a paced wait

  bool ran() const { return refusal.empty(); }
  // Of the emulated step from the simulated one; 0.01: one percent longer.
  double difference() const;
  bool valid() const { return loss_error <= kEmulatedLossTolerance; }
};

// Plans `strategy` for the profile on the cluster, and runs the plan both ways. A strategy that has
// no plan here is a result with a refusal. Errors: a wrong profile or cluster, a plan that the
// runtime cannot run.
absl::StatusOr<EmulationResult> RunEmulationCase(const ModelProfile& profile,
                                                 const ClusterSpec& cluster,
                                                 const std::string& strategy, int global_batch,
                                                 const EmulateOptions& options);

// The same of a plan that is there already.
absl::StatusOr<EmulationResult> CompareWithSimulation(const Plan& plan, const CostModel& cost,
                                                      const EmulateOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_EMULATION_EMULATION_CASE_H_

// The devices of an emulated cluster in the form that a session of the runtime uses: clocks and
// communicators.
#ifndef DPIPE_CORE_EMULATION_EMULATED_CLUSTER_H_
#define DPIPE_CORE_EMULATION_EMULATED_CLUSTER_H_

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/cost/cost_model.h"
#include "core/emulation/emulated_wires.h"
#include "core/emulation/virtual_clock.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/runtime/session_clock.h"

namespace dpipe {

// For one session that runs one plan. A computation takes as long as the cost model says for its
// instruction on its rank, from when the rank has everything it needs. Any work of the host for it
// happens within that time.
class EmulatedCluster : public SessionClock {
 public:
  // `plan` and `cost` outlive this. Returns InvalidArgument if the plan is for another number of
  // devices.
  static absl::StatusOr<std::unique_ptr<EmulatedCluster>> Create(
      const Plan* plan, const CostModel* cost, const VirtualClockOptions& options);
  ~EmulatedCluster() override;

  // Returns one communicator per rank. This must outlive them.
  std::vector<std::unique_ptr<Communicator>> MakeCommunicators();

  RankClock* rank(int rank) override;
  void StartRun() override { clock_.StartRun(); }
  void BeginRank(int rank) override { clock_.Enter(rank); }
  void EndRank(int rank) override { clock_.Leave(rank); }

  // Returns the network's events since the last call, by start time. The prologue's steps are
  // negative.
  std::vector<TraceEvent> TakeEvents() { return wires_.TakeEvents(); }
  const VirtualClock& clock() const { return clock_; }

 private:
  class EmulatedRank;
  EmulatedCluster(const Plan* plan, const CostModel* cost, const VirtualClockOptions& options);

  VirtualClock clock_;
  EmulatedWires wires_;
  std::vector<std::unique_ptr<EmulatedRank>> ranks_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_CLUSTER_H_

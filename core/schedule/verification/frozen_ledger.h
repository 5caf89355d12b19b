// Tracks and checks the frozen work of one rank while its instruction list is walked: which samples
// are loaded, how many frozen layers they have passed, and which outputs are available.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_FROZEN_LEDGER_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_FROZEN_LEDGER_H_

#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/verification/plan_shape.h"

namespace dpipe {

class FrozenLedger {
 public:
  // Scans the rank's whole list for the outputs that it computes or receives for the next step. In
  // the steady state, the previous step has made the same outputs available for this one. Keeps
  // references to `plan`, `shape` and `cost`.
  FrozenLedger(const Plan& plan, const PlanShape& shape, const CostModel& cost, int rank);

  // Each checks one instruction and records its effect. Call them in list order. Error messages
  // start with at.Name().
  absl::Status Load(const InstructionAt& at, const Instruction& load);
  absl::Status Run(const InstructionAt& at, const Instruction& work);
  absl::Status Send(const InstructionAt& at, const Instruction& send) const;
  absl::Status Receive(const InstructionAt& at, const Instruction& receive);
  // The same for FROZEN_VALUES. A sample that is sent is no longer on this rank.
  absl::Status SendValues(const InstructionAt& at, const Instruction& send);
  absl::Status ReceiveValues(const InstructionAt& at, const Instruction& receive);
  // OK if all frozen outputs that the rank's `stage` reads for `samples` are available in this
  // step.
  absl::Status CheckReadable(const InstructionAt& at, int stage, SampleRange samples) const;
  // OK if every sample that the rank has loaded or received, and not sent on, has passed all layers
  // of its component. Adds one to computed[component][sample] for each.
  absl::Status Finish(std::vector<std::vector<int>>* computed) const;

 private:
  struct Component {
    std::vector<int> next_layer[2];  // by step_offset and sample: the next layer, or kNotLoaded
    std::vector<bool> at_hand[2];   // by step_offset and sample: output computed or received so far
    std::vector<bool> from_before;  // by sample: output that the previous step makes for this one
    std::vector<bool> read;         // by sample: true if the rank reads its output
  };
  static constexpr int kNotLoaded = -1;

  bool IsCached() const { return plan_.cached_frozen_outputs(); }
  // OK if one more layer is named and the samples are aligned.
  absl::Status CheckMove(const InstructionAt& at, const Instruction& move) const;
  absl::Status CheckAligned(const InstructionAt& at, const Range& samples) const;
  absl::Status CheckSources(const InstructionAt& at, const std::vector<int>& sources,
                            SampleRange samples, int step_offset) const;
  absl::Status LoadCached(const InstructionAt& at, const Instruction& load);

  const Plan& plan_;
  const PlanShape& shape_;
  const CostModel& cost_;
  const int rank_;
  std::vector<Component> components_;
  std::vector<std::vector<int>> sources_;  // components read, by stage of the rank
  // By component and sample: true if the rank reads the backbone's cached outputs, and if it has
  // loaded them.
  std::vector<std::vector<bool>> reads_cached_, cached_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_FROZEN_LEDGER_H_

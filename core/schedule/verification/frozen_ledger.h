// What one rank knows of frozen work while its list is walked: which samples are loaded, how far
// their chains have come, and whose outputs are at hand.
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
  // Reads the rank's whole list for what it will make for the next step, which is at hand in this
  // one.
  FrozenLedger(const Plan& plan, const PlanShape& shape, const CostModel& cost, int rank);

  // Each checks and then notes one instruction, in list order. `at` opens their messages.
  absl::Status Load(const InstructionAt& at, const Instruction& load);
  absl::Status Run(const InstructionAt& at, const Instruction& work);
  absl::Status Send(const InstructionAt& at, const Instruction& send) const;
  absl::Status Receive(const InstructionAt& at, const Instruction& receive);
  // That everything a stage of the rank reads for `samples` is at hand in this step.
  absl::Status CheckReadable(const InstructionAt& at, int stage, SampleRange samples) const;
  // That every chain begun on the rank is finished. Adds one to computed[component][sample] for
  // each.
  absl::Status Finish(std::vector<std::vector<int>>* computed) const;

 private:
  struct Component {
    std::vector<int>
        next_layer[2];             // by step_offset and sample: kNotLoaded, or how far the chain is
    std::vector<bool> at_hand[2];  // outputs, by step_offset and sample: made or received so far
    std::vector<bool> from_before;  // outputs that the step before makes for this one
    std::vector<bool> read;         // whether the rank reads this sample's outputs
  };
  static constexpr int kNotLoaded = -1;

  bool IsCached() const { return plan_.cached_frozen_outputs(); }
  absl::Status CheckAligned(const InstructionAt& at, const Range& samples) const;
  absl::Status CheckSources(const InstructionAt& at, const std::vector<int>& sources,
                            SampleRange samples, int step_offset) const;
  absl::Status LoadCached(const InstructionAt& at, const Instruction& load);

  const Plan& plan_;
  const PlanShape& shape_;
  const CostModel& cost_;
  const int rank_;
  std::vector<Component> components_;
  std::vector<std::vector<int>> sources_;  // by stage of the rank
  // By backbone and sample: whether the rank reads cached outputs, and has them loaded.
  std::vector<std::vector<bool>> reads_cached_, cached_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_FROZEN_LEDGER_H_

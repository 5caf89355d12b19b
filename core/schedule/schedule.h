// The order of work in one pipeline group: a value that verifies itself.
//
// A schedule is independent of models and machines. It has devices (each later becomes one rank, or
// several that share every micro-batch), chains of stages on these devices, micro-batches that go
// through a chain, and for every device an order of slots. A slot is one pass of one whole stage
// over one micro-batch. [algorithms.md §5]
//
//   1f1b           one chain, stage k on device k
//   interleaved    one chain of v p stages, stage k on device k mod p
//   V family       one chain of 2p stages, stage k on device k or 2p-1-k
//   bidirectional  two chains of the same backbone, stage k of the second on device p-1-k; each
//                  takes half of the micro-batches and has a copy of the weights
//   cascaded       two chains of different backbones in opposite directions
//   self-conditioning: a chain whose first half has forward passes only
#ifndef DPIPE_CORE_SCHEDULE_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_SCHEDULE_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"

namespace dpipe {

enum class Pass {
  kForward,
  kBackward,   // input and weight gradients
  kInputGrad,  // input gradients alone; a weight gradient follows
  kWeightGrad,
};

// The input gradient goes to the previous stage; the weight gradient stays with its stage.
inline bool ComputesInputGrad(Pass pass) {
  return pass == Pass::kBackward || pass == Pass::kInputGrad;
}
inline bool ComputesWeightGrad(Pass pass) {
  return pass == Pass::kBackward || pass == Pass::kWeightGrad;
}

// 'F', 'B', 'I', 'W'.
char PassLetter(Pass pass);

struct Slot {
  Pass pass = Pass::kForward;
  int micro_batch = 0;  // of the stage's chain
  int stage = 0;        // numbered over all chains

  friend bool operator==(const Slot& a, const Slot& b) {
    return a.pass == b.pass && a.stage == b.stage && a.micro_batch == b.micro_batch;
  }
};

// A sequence of stages: a micro-batch goes forward through them, then back with its gradient.
struct ScheduleChain {
  std::vector<int> devices;  // [k]: the device of the chain's stage k
  int num_micro_batches = 1;
  int num_forward_only = 0;  // the number of leading stages without backward passes
  int backbone = 0;          // the chains of a backbone share its micro-batches

  friend bool operator==(const ScheduleChain& a, const ScheduleChain& b) {
    return a.devices == b.devices && a.num_micro_batches == b.num_micro_batches &&
           a.num_forward_only == b.num_forward_only && a.backbone == b.backbone;
  }
};

// The costs of a stage's passes. Messages take no time.
struct PassCosts {
  Nanos forward = 1;
  Nanos input_grad = 1;
  Nanos weight_grad = 0;
};

class Schedule {
 public:
  // `slots` is indexed by device. Stage ids are consecutive over the chains. InvalidArgument if
  // Verify fails.
  static absl::StatusOr<Schedule> Create(std::string name, std::vector<ScheduleChain> chains,
                                         std::vector<std::vector<Slot>> slots);
  // Makes a schedule of one chain, stage k on device k; sets the stage of every slot accordingly.
  static absl::StatusOr<Schedule> CreateStraight(std::string name, int num_micro_batches,
                                                 std::vector<std::vector<Slot>> slots);

  const std::string& name() const { return name_; }
  int num_devices() const { return static_cast<int>(slots_.size()); }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  const std::vector<ScheduleChain>& chains() const { return chains_; }
  // The number of micro-batches of a backbone, summed over its chains.
  int num_micro_batches(int backbone = 0) const;
  const std::vector<Slot>& slots(int device) const { return slots_[device]; }

  int ChainOf(int stage) const { return stages_[stage].chain; }
  int DeviceOf(int stage) const { return stages_[stage].device; }
  int FirstStageOf(int chain) const { return first_stage_[chain]; }
  // The previous or next stage in the chain; -1 at its ends.
  int Previous(int stage) const { return stages_[stage].previous; }
  int Next(int stage) const { return stages_[stage].next; }
  bool IsForwardOnly(int stage) const { return stages_[stage].forward_only; }
  // True if there is one chain with stage k on device k, so ToString can omit stages.
  bool IsStraight() const;

  // InvalidArgument, naming device, slot, stage and micro-batch, unless
  //   - every slot is on its stage's device;
  //   - every stage runs, for every micro-batch, one forward pass and then, unless it is
  //     forward-only, either one backward pass or one input-gradient pass and then one
  //     weight-gradient pass;
  //   - weight gradients of a stage (of either form) come in micro-batch order, so that the sums of
  //     gradients have the same bits under every schedule;
  //   - all slots can run to completion.
  absl::Status Verify() const;

  // Return the maximum number of micro-batches of a stage, or of (stage, micro-batch) pairs on a
  // device, that are between their forward pass and the end of their backward passes.
  int PeakStashed(int stage) const;
  int PeakStashedOnDevice(int device) const;
  // Returns the time from the start of the first slot to the end of the last one if every pass
  // starts as soon as its device and inputs allow. Costs are those of every stage, or by stage.
  Nanos Makespan(const PassCosts& costs) const;
  Nanos Makespan(const std::vector<PassCosts>& costs) const;
  // Returns the start of each slot in that run: [device][slot].
  std::vector<std::vector<Nanos>> StartTimes(const std::vector<PassCosts>& costs) const;
  // Returns 1 - busy / (devices x makespan).
  double BubbleRatio(const PassCosts& costs) const;
  double BubbleRatio(const std::vector<PassCosts>& costs) const;
  // Returns one line per device: "F0 F1 B0 B1". Unless IsStraight, "F2.0" is micro-batch 0 of
  // stage 2.
  std::string ToString() const;

 private:
  struct StageLinks {
    int chain = 0;
    int device = 0;
    int previous = -1, next = -1;
    bool forward_only = false;
  };

  Schedule(std::string name, std::vector<ScheduleChain> chains,
           std::vector<std::vector<Slot>> slots);

  struct Run;
  Run Execute(const std::vector<PassCosts>& costs) const;
  absl::Status VerifyChains() const;
  absl::Status VerifyStages() const;
  std::string Describe(const Slot& slot) const;

  std::string name_;
  std::vector<ScheduleChain> chains_;
  std::vector<int> first_stage_;    // by chain
  std::vector<StageLinks> stages_;  // by stage
  std::vector<std::vector<Slot>> slots_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SCHEDULE_H_

// The order of work in one pipeline group: a value that verifies itself.
//
// A schedule knows nothing of models or machines. It has devices (each later becomes one rank, or
// several that share every micro-batch), chains of stages that lie on devices, micro-batches that
// pass through a chain, and for every device the order of its slots. One slot is one pass of one
// whole stage over one micro-batch. [algorithms.md §5]
//
//   1f1b          one chain, stage k on device k
//   interleaved   one chain of v p stages, stage k on device k mod p
//   V family      one chain of 2p stages, stage k on device k or 2p-1-k
//   bidirectional two chains of the same backbone, stage k of the second on device p-1-k; each
//                 takes half of the micro-batches and has a copy of the weights
//   cascaded      two chains of different backbones in opposite directions
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

// The gradient of the stage's inputs, which goes to the stage before, and that of its weights.
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
  int stage = 0;        // counted over all chains

  friend bool operator==(const Slot& a, const Slot& b) {
    return a.pass == b.pass && a.stage == b.stage && a.micro_batch == b.micro_batch;
  }
};

// Stages that a micro-batch passes through in turn, forward and then, backwards, with its gradient.
struct ScheduleChain {
  std::vector<int> devices;  // [k]: where the chain's stage k lies
  int num_micro_batches = 1;
  int num_forward_only = 0;  // how many of the first stages have no backward passes
  int backbone = 0;          // chains of one backbone divide its micro-batches among them

  friend bool operator==(const ScheduleChain& a, const ScheduleChain& b) {
    return a.devices == b.devices && a.num_micro_batches == b.num_micro_batches &&
           a.num_forward_only == b.num_forward_only && a.backbone == b.backbone;
  }
};

// What the passes of a stage cost; messages take no time.
struct PassCosts {
  Nanos forward = 1;
  Nanos input_grad = 1;
  Nanos weight_grad = 0;
};

class Schedule {
 public:
  // `slots`: by device. Stage ids count on from chain to chain. InvalidArgument if Verify fails.
  static absl::StatusOr<Schedule> Create(std::string name, std::vector<ScheduleChain> chains,
                                         std::vector<std::vector<Slot>> slots);
  // One chain, stage k on device k; the slots' stages are set to that.
  static absl::StatusOr<Schedule> CreateStraight(std::string name, int num_micro_batches,
                                                 std::vector<std::vector<Slot>> slots);

  const std::string& name() const { return name_; }
  int num_devices() const { return static_cast<int>(slots_.size()); }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  const std::vector<ScheduleChain>& chains() const { return chains_; }
  // The micro-batches of one backbone, over its chains.
  int num_micro_batches(int backbone = 0) const;
  const std::vector<Slot>& slots(int device) const { return slots_[device]; }

  int ChainOf(int stage) const { return stages_[stage].chain; }
  int DeviceOf(int stage) const { return stages_[stage].device; }
  int FirstStageOf(int chain) const { return first_stage_[chain]; }
  // The stage before or after in the chain; -1 at its ends.
  int Previous(int stage) const { return stages_[stage].previous; }
  int Next(int stage) const { return stages_[stage].next; }
  bool IsForwardOnly(int stage) const { return stages_[stage].forward_only; }
  // Whether every chain is one stage on each device in order: what needs no device ids.
  bool IsStraight() const;

  // InvalidArgument, naming device, slot, stage and micro-batch, unless every slot lies on its
  // stage's device; every stage does, for every micro-batch, one forward pass and then (unless it
  // is forward-only) either one backward pass or one input-gradient and then one weight-gradient
  // pass; weight gradients (of either form) of a stage come in micro-batch order, which is what
  // makes the sums of gradients the same bits under every schedule; and the whole can run to its
  // end.
  absl::Status Verify() const;

  // The most micro-batches of a stage, and the most (stage, micro-batch) pairs of a device, that
  // are between forward pass and the end of their backward passes.
  int PeakStashed(int stage) const;
  int PeakStashedOnDevice(int device) const;
  // Time from the first slot's start to the last one's end if every pass starts as soon as its
  // device and its inputs allow. Costs of every stage, or by stage.
  Nanos Makespan(const PassCosts& costs) const;
  Nanos Makespan(const std::vector<PassCosts>& costs) const;
  // When each slot starts then: [device][slot].
  std::vector<std::vector<Nanos>> StartTimes(const std::vector<PassCosts>& costs) const;
  // 1 - busy / (devices x makespan).
  double BubbleRatio(const PassCosts& costs) const;
  double BubbleRatio(const std::vector<PassCosts>& costs) const;
  // One line a device: "F0 F1 B0 B1"; where devices hold several stages, "F2.0" is micro-batch 0 of
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

// The order of work in one pipeline group: a value that verifies itself.
//
// A schedule knows nothing of models or machines: S stages, M micro-batches, and for every stage
// the order of its slots. One slot is one pass of the whole stage over one micro-batch.
// [algorithms.md §5]
#ifndef DPIPE_CORE_SCHEDULE_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_SCHEDULE_H_

#include <string>
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

// 'F', 'B', 'I', 'W'.
char PassLetter(Pass pass);

struct Slot {
  Pass pass = Pass::kForward;
  int micro_batch = 0;

  friend bool operator==(const Slot& a, const Slot& b) {
    return a.pass == b.pass && a.micro_batch == b.micro_batch;
  }
};

// Unit costs of the passes, the same on every stage; messages take no time.
struct PassCosts {
  Nanos forward = 1;
  Nanos input_grad = 1;
  Nanos weight_grad = 0;
};

class Schedule {
 public:
  // InvalidArgument if Verify fails.
  static absl::StatusOr<Schedule> Create(std::string name, int num_micro_batches,
                                         std::vector<std::vector<Slot>> stages);

  const std::string& name() const { return name_; }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  int num_micro_batches() const { return num_micro_batches_; }
  const std::vector<Slot>& slots(int stage) const { return stages_[stage]; }

  // InvalidArgument, naming stage, slot and micro-batch, unless every stage does, for every
  // micro-batch, one forward pass and then either one backward pass or one input-gradient and then
  // one weight-gradient pass; weight gradients (of either form) come in micro-batch order, which is
  // what makes the sums of gradients the same bits under every schedule; and the whole can run to
  // its end.
  absl::Status Verify() const;

  // The most micro-batches of a stage that are between forward pass and the end of their backward
  // passes.
  int PeakStashed(int stage) const;
  // Time from the first slot's start to the last one's end if every pass starts as soon as its
  // stage and its inputs allow.
  Nanos Makespan(const PassCosts& costs) const;
  // 1 - busy / (stages x makespan).
  double BubbleRatio(const PassCosts& costs) const;
  // One line a stage: "F0 F1 B0 B1".
  std::string ToString() const;

 private:
  Schedule(std::string name, int num_micro_batches, std::vector<std::vector<Slot>> stages)
      : name_(std::move(name)), num_micro_batches_(num_micro_batches), stages_(std::move(stages)) {}

  std::string name_;
  int num_micro_batches_ = 0;
  std::vector<std::vector<Slot>> stages_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SCHEDULE_H_

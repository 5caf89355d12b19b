#include "core/emulation/emulated_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/emulation/emulated_communicator.h"
#include "core/sim/stage_times.h"

namespace dpipe {

class EmulatedCluster::EmulatedRank : public RankClock {
 public:
  EmulatedRank(const Plan* plan, const CostModel& cost, Nanos optimizer_ns, int rank,
               VirtualClock* clock, EmulatedWires* wires)
      : plan_(plan), rank_(rank), clock_(clock), wires_(wires) {
    for (const Instruction& instruction : plan->devices(rank).instructions()) {
      durations_.push_back(instruction.kind() == Instruction::OPTIMIZER_STEP
                               ? optimizer_ns
                               : cost.InstructionTime(*plan, instruction, rank));
    }
  }

  Nanos Now() override { return clock_->Now(rank_); }

  void Reach(const Plan& plan, int instruction, int64_t step) override {
    const Instruction& reached = plan_->devices(rank_).instructions(instruction);
    wires_->current(rank_) = {instruction, step, reached.bytes()};
  }

  void FinishComputation(Nanos start_ns) override {
    wires_->Compute(rank_, start_ns, durations_[wires_->current(rank_).instruction]);
  }

 private:
  const Plan* const plan_;
  const int rank_;
  VirtualClock* const clock_;
  EmulatedWires* const wires_;
  std::vector<Nanos> durations_;  // by instruction
};

absl::StatusOr<std::unique_ptr<EmulatedCluster>> EmulatedCluster::Create(
    const Plan* plan, const CostModel* cost, const VirtualClockOptions& options) {
  if (plan->devices_size() != cost->num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is for ", plan->devices_size(),
                                                   " devices, the cluster has ",
                                                   cost->num_devices()));
  }
  return std::unique_ptr<EmulatedCluster>(new EmulatedCluster(plan, cost, options));
}

EmulatedCluster::EmulatedCluster(const Plan* plan, const CostModel* cost,
                                 const VirtualClockOptions& options)
    : clock_(plan->devices_size(), options), wires_(*cost, &clock_) {
  const std::vector<Nanos> optimizer_ns = OptimizerTimes(*plan, *cost);
  for (int r = 0; r < plan->devices_size(); ++r) {
    ranks_.push_back(
        std::make_unique<EmulatedRank>(plan, *cost, optimizer_ns[r], r, &clock_, &wires_));
  }
}

EmulatedCluster::~EmulatedCluster() = default;

RankClock* EmulatedCluster::rank(int rank) { return ranks_[rank].get(); }

std::vector<std::unique_ptr<Communicator>> EmulatedCluster::MakeCommunicators() {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    communicators.push_back(CreateEmulatedCommunicator(&wires_, static_cast<int>(r)));
  }
  return communicators;
}

}  // namespace dpipe

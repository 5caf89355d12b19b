// Cuts the backbone's chain of layers into contiguous stages. [algorithms.md §2]
//
//   T_max = (M + 2S - 2) * T0 + Y
//   T0 = max over devices and links of their time per micro-batch
//   Y  = max over stages of max(0, sync - slack), slack = backward time of the stages before it
//
// S stages, M micro-batches. A link counts as a stage of its own: it carries the values that are
// live at its cut. In a straight pipeline (stage k alone on a device of its own) T_max bounds the
// step without frozen work; the search simulates its results.
//
// If devices hold several stages (interleaved, V), a device's time is the sum over them. If several
// chains hold copies of the same stages (bidirectional), each copy gets an even share of the
// micro-batches, and times are scaled by that share. In both cases
//
//   T_max = (M - 1) * T0 + all stages and links once + Y
//
// is an estimate, not a bound.
#ifndef DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_
#define DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"
#include "core/planner/partition/stage_costs.h"

namespace dpipe {

enum class Recompute {
  kNone,
  kFull,  // every stage
  kAuto,  // the stages of devices that would not fit otherwise
};

struct PartitionProblem {
  const StageCosts* costs = nullptr;  // not owned
  int num_micro_batches = 1;
  // [k]: the schedule devices that hold stage k, one per copy. All stages have the same number of
  // copies.
  std::vector<std::vector<int>> devices_of_stage;
  // By schedule device; their sum is D.
  std::vector<int> replicas;
  // By schedule device: its first rank within the group. Empty: device d takes the ranks after
  // those of device d-1.
  std::vector<int> first_ranks;
  // True if a partitioner may choose other replicas with the same sum.
  bool choose_replicas = false;
  Recompute recompute = Recompute::kNone;

  int num_stages() const { return static_cast<int>(devices_of_stage.size()); }
  int num_devices() const { return static_cast<int>(replicas.size()); }
  int num_copies() const { return static_cast<int>(devices_of_stage[0].size()); }
  int num_ranks() const;  // D
};

// Returns a problem with stage k on device k and `replicas` ranks per device.
PartitionProblem StraightProblem(const StageCosts& costs, int num_stages, int num_micro_batches,
                                 int replicas = 1);

struct Partition {
  std::vector<LayerRange> stages;  // contiguous, none empty, together all layers
  std::vector<DeviceSeat> seats;   // by schedule device
  Nanos bottleneck_ns = 0;         // T0
  Nanos exposed_sync_ns = 0;       // Y
  Nanos bound_ns = 0;              // T_max
  std::string note;                // what the partitioner did not consider; often empty
};

// True if stage k is on device k alone, for every k.
bool IsStraight(const PartitionProblem& problem);

// Returns the devices' seats one after another, with the given replicas by device. `recompute`
// applies to all of them.
std::vector<DeviceSeat> ConsecutiveSeats(const std::vector<int>& replicas, bool recompute);

// Returns the problem's seats, with or without recomputation.
std::vector<DeviceSeat> SeatsOfDevices(const PartitionProblem& problem, bool recompute);

// Returns InvalidArgument, naming the partitioner, unless the problem is straight.
absl::Status CheckStraight(const PartitionProblem& problem, const char* partitioner);

// Returns InvalidArgument if there are fewer layers than stages, there is no stage, a stage has no
// device or other devices than the problem has, or a micro-batch does not divide over a device's
// ranks.
absl::Status CheckPartitionProblem(const PartitionProblem& problem);

// Returns the stages that each device holds under these cuts.
std::vector<std::vector<HeldStage>> HeldStages(const PartitionProblem& problem,
                                               const std::vector<LayerRange>& stages);

// Computes T0, Y and T_max of the given stages and seats.
Partition ScorePartition(const PartitionProblem& problem, std::vector<LayerRange> stages,
                         std::vector<DeviceSeat> seats);

// Returns ResourceExhausted, naming the device and both values, if a device needs more than its
// limit.
absl::Status CheckMemory(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                         const std::vector<DeviceSeat>& seats);

// True if a rank of the seat has memory for this stage of a straight pipeline, recomputing as the
// problem says. With kAuto: with or without recomputation, since a stage that begins at a thick cut
// may need more if it recomputes.
bool StageFits(const PartitionProblem& problem, int stage, const DeviceSeat& seat,
               LayerRange layers);

// Returns the seats with recomputation as the problem says; with kAuto, on the devices that exceed
// their limit without it.
std::vector<DeviceSeat> SeatsWithRecompute(const PartitionProblem& problem,
                                           const std::vector<LayerRange>& stages,
                                           std::vector<DeviceSeat> seats);

// Finishes a partition: applies SeatsWithRecompute, CheckMemory and ScorePartition to consecutive
// seats of these replicas, or to the problem's seats.
absl::StatusOr<Partition> FinishPartition(const PartitionProblem& problem,
                                          std::vector<LayerRange> stages,
                                          const std::vector<int>& replicas);
absl::StatusOr<Partition> FinishPartition(const PartitionProblem& problem,
                                          std::vector<LayerRange> stages);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_

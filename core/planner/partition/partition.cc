#include "core/planner/partition/partition.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/boundary_traffic.h"

namespace dpipe {
namespace {

Nanos DivideUp(Nanos a, Nanos b) { return (a + b - 1) / b; }

std::vector<int> DevicesOfCopy(const PartitionProblem& problem, int copy) {
  std::vector<int> devices;
  for (const std::vector<int>& of_stage : problem.devices_of_stage) {
    devices.push_back(of_stage[copy]);
  }
  return devices;
}

std::vector<DeviceSeat> SeatsOfStage(const PartitionProblem& problem,
                                     const std::vector<DeviceSeat>& seats, int stage) {
  std::vector<DeviceSeat> copies;
  for (int device : problem.devices_of_stage[stage]) copies.push_back(seats[device]);
  return copies;
}

// Returns the link times by boundary; 0 if both stages are on one device.
std::vector<Nanos> LinkTimes(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                             const std::vector<DeviceSeat>& seats, int copy) {
  const int num_stages = static_cast<int>(stages.size());
  const std::vector<int> devices = DevicesOfCopy(problem, copy);
  std::vector<Nanos> times(num_stages - 1, 0);
  std::vector<BoundaryTraffic> traffic;
  const bool straight = IsStraight(problem);
  if (!straight) traffic = TrafficOf(problem.costs->values(), stages, devices);
  for (int s = 0; s + 1 < num_stages; ++s) {
    const DeviceSeat& from = seats[devices[s]];
    const DeviceSeat& to = seats[devices[s + 1]];
    if (devices[s] == devices[s + 1]) continue;
    times[s] = straight ? problem.costs->LinkNs(stages[s].end, from, to)
                        : problem.costs->TransferNs(traffic[s].forward_bytes,
                                                    traffic[s].gradient_bytes, from, to);
  }
  return times;
}

Nanos ExposedSync(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                  const std::vector<DeviceSeat>& seats) {
  Nanos slack = 0, exposed = 0;
  for (int s = 0; s < problem.num_stages(); ++s) {
    const std::vector<DeviceSeat> copies = SeatsOfStage(problem, seats, s);
    exposed = std::max(exposed, problem.costs->SyncNs(copies, stages[s]) - slack);
    slack += problem.costs->BackwardNs(copies[0], stages[s]);
  }
  return exposed;
}

absl::Status CheckDevices(const PartitionProblem& problem) {
  for (int s = 0; s < problem.num_stages(); ++s) {
    const std::vector<int>& devices = problem.devices_of_stage[s];
    if (devices.empty() || static_cast<int>(devices.size()) != problem.num_copies()) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", s, " is on ", devices.size(),
                                                     " devices, but stage 0 is on ",
                                                     problem.num_copies()));
    }
    for (int device : devices) {
      if (device >= 0 && device < problem.num_devices()) continue;
      return absl::InvalidArgumentError(absl::StrCat("stage ", s, " is on device ", device,
                                                     ", but there are ", problem.num_devices(),
                                                     " devices"));
    }
  }
  for (int d = 0; d < problem.num_devices() && !problem.choose_replicas; ++d) {
    if (problem.costs->CanReplicate(problem.replicas[d])) continue;
    return absl::InvalidArgumentError(absl::StrCat("device ", d, ": a micro-batch does not divide ",
                                                   "over its ", problem.replicas[d], " ranks"));
  }
  return absl::OkStatus();
}

std::string Describe(const std::vector<HeldStage>& held) {
  std::string text;
  for (const HeldStage& stage : held) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "layers ", stage.layers.ToString());
  }
  return text;
}

}  // namespace

int PartitionProblem::num_ranks() const {
  return std::accumulate(replicas.begin(), replicas.end(), 0);
}

PartitionProblem StraightProblem(const StageCosts& costs, int num_stages, int num_micro_batches,
                                 int replicas) {
  PartitionProblem problem;
  problem.costs = &costs;
  problem.num_micro_batches = num_micro_batches;
  for (int s = 0; s < num_stages; ++s) problem.devices_of_stage.push_back({s});
  problem.replicas.assign(std::max(0, num_stages), replicas);
  return problem;
}

bool IsStraight(const PartitionProblem& problem) {
  if (problem.num_devices() != problem.num_stages()) return false;
  for (int s = 0; s < problem.num_stages(); ++s) {
    if (problem.devices_of_stage[s] != std::vector<int>{s}) return false;
  }
  return true;
}

std::vector<DeviceSeat> ConsecutiveSeats(const std::vector<int>& replicas, bool recompute) {
  std::vector<DeviceSeat> seats;
  int first = 0;
  for (int count : replicas) {
    seats.push_back({first, count, recompute});
    first += count;
  }
  return seats;
}

std::vector<DeviceSeat> SeatsOfDevices(const PartitionProblem& problem, bool recompute) {
  std::vector<DeviceSeat> seats = ConsecutiveSeats(problem.replicas, recompute);
  for (size_t d = 0; d < problem.first_ranks.size(); ++d) {
    seats[d].first_rank = problem.first_ranks[d];
  }
  return seats;
}

absl::Status CheckStraight(const PartitionProblem& problem, const char* partitioner) {
  if (IsStraight(problem)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("partitioner '", partitioner, "' cuts straight pipelines only; requested ",
                   problem.num_stages(), " stages in ", problem.num_copies(), " copies on ",
                   problem.num_devices(), " devices"));
}

absl::Status CheckPartitionProblem(const PartitionProblem& problem) {
  DPIPE_CHECK(problem.costs != nullptr);
  if (problem.num_stages() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pipeline needs at least 1 stage; requested ", problem.num_stages()));
  }
  if (problem.num_stages() > problem.costs->num_layers()) {
    return absl::InvalidArgumentError(absl::StrCat(problem.num_stages(),
                                                   " stages cannot be cut from a backbone of ",
                                                   problem.costs->num_layers(), " layers"));
  }
  return CheckDevices(problem);
}

std::vector<std::vector<HeldStage>> HeldStages(const PartitionProblem& problem,
                                               const std::vector<LayerRange>& stages) {
  std::vector<std::vector<HeldStage>> held(problem.num_devices());
  for (int s = 0; s < problem.num_stages(); ++s) {
    for (int copy = 0; copy < problem.num_copies(); ++copy) {
      held[problem.devices_of_stage[s][copy]].push_back({s, copy, stages[s]});
    }
  }
  return held;
}

Partition ScorePartition(const PartitionProblem& problem, std::vector<LayerRange> stages,
                         std::vector<DeviceSeat> seats) {
  const StageCosts& costs = *problem.costs;
  const int copies = problem.num_copies();
  std::vector<Nanos> load(problem.num_devices(), 0);
  Partition partition;
  Nanos longest_path = 0;
  for (int copy = 0; copy < copies; ++copy) {
    Nanos path = 0;
    for (int s = 0; s < problem.num_stages(); ++s) {
      const int device = problem.devices_of_stage[s][copy];
      const Nanos time = costs.ComputeNs(seats[device], stages[s]);
      load[device] += time;
      path += time;
    }
    for (Nanos link : LinkTimes(problem, stages, seats, copy)) {
      partition.bottleneck_ns = std::max(partition.bottleneck_ns, DivideUp(link, copies));
      path += link;
    }
    longest_path = std::max(longest_path, path);
  }
  for (Nanos t : load) {
    partition.bottleneck_ns = std::max(partition.bottleneck_ns, DivideUp(t, copies));
  }
  partition.exposed_sync_ns = ExposedSync(problem, stages, seats);
  const int num_slots = problem.num_micro_batches + 2 * problem.num_stages() - 2;
  partition.bound_ns =
      partition.exposed_sync_ns +
      (IsStraight(problem)
           ? num_slots * partition.bottleneck_ns
           : (problem.num_micro_batches - 1) * partition.bottleneck_ns + longest_path);
  partition.stages = std::move(stages);
  partition.seats = std::move(seats);
  return partition;
}

absl::Status CheckMemory(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                         const std::vector<DeviceSeat>& seats) {
  const std::vector<std::vector<HeldStage>> held = HeldStages(problem, stages);
  for (int d = 0; d < problem.num_devices(); ++d) {
    const int64_t limit = problem.costs->MemoryLimitBytes(seats[d]);
    if (limit == 0) continue;
    const int64_t need = problem.costs->MemoryBytes(d, seats[d], held[d]);
    if (need <= limit) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("device ", d, " (", Describe(held[d]), "): peak ", FormatBytes(need),
                     " exceeds the device's limit of ", FormatBytes(limit)));
  }
  return absl::OkStatus();
}

bool StageFits(const PartitionProblem& problem, int stage, const DeviceSeat& seat,
               LayerRange layers) {
  DeviceSeat holds = seat;
  const int64_t limit = problem.costs->MemoryLimitBytes(holds);
  if (limit == 0) return true;
  holds.recompute = problem.recompute != Recompute::kNone;
  if (problem.costs->MemoryBytes(stage, holds, {{stage, 0, layers}}) <= limit) return true;
  holds.recompute = false;
  return problem.recompute == Recompute::kAuto &&
         problem.costs->MemoryBytes(stage, holds, {{stage, 0, layers}}) <= limit;
}

std::vector<DeviceSeat> SeatsWithRecompute(const PartitionProblem& problem,
                                           const std::vector<LayerRange>& stages,
                                           std::vector<DeviceSeat> seats) {
  const std::vector<std::vector<HeldStage>> held = HeldStages(problem, stages);
  for (int d = 0; d < problem.num_devices(); ++d) {
    seats[d].recompute = problem.recompute == Recompute::kFull;
    if (problem.recompute != Recompute::kAuto) continue;
    const int64_t limit = problem.costs->MemoryLimitBytes(seats[d]);
    seats[d].recompute = limit != 0 && problem.costs->MemoryBytes(d, seats[d], held[d]) > limit;
  }
  return seats;
}

namespace {

absl::StatusOr<Partition> Finish(const PartitionProblem& problem, std::vector<LayerRange> stages,
                                 std::vector<DeviceSeat> seats) {
  seats = SeatsWithRecompute(problem, stages, std::move(seats));
  DPIPE_RETURN_IF_ERROR(CheckMemory(problem, stages, seats));
  return ScorePartition(problem, std::move(stages), std::move(seats));
}

}  // namespace

absl::StatusOr<Partition> FinishPartition(const PartitionProblem& problem,
                                          std::vector<LayerRange> stages,
                                          const std::vector<int>& replicas) {
  return Finish(problem, std::move(stages), ConsecutiveSeats(replicas, false));
}

absl::StatusOr<Partition> FinishPartition(const PartitionProblem& problem,
                                          std::vector<LayerRange> stages) {
  return Finish(problem, std::move(stages), SeatsOfDevices(problem, false));
}

}  // namespace dpipe

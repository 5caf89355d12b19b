#include "core/planner/partition/solvers/pair.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/planner/partition/solvers/nested.h"

namespace dpipe {
namespace {

absl::Status CheckSide(const PairProblem& problem, const StageCosts& costs,
                       const std::string& name) {
  if (costs.num_layers() < problem.num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat(problem.num_devices(),
                                                   " stages cannot be cut from the ", name,
                                                   " backbone of ", costs.num_layers(), " layers"));
  }
  for (int d = 0; d < problem.num_devices(); ++d) {
    if (costs.CanReplicate(problem.replicas[d])) continue;
    return absl::InvalidArgumentError(absl::StrCat("device ", d, ": a micro-batch of the ", name,
                                                   " backbone does not divide over its ",
                                                   problem.replicas[d], " ranks"));
  }
  return absl::OkStatus();
}

int64_t MemoryOf(const PairProblem& problem, const std::vector<DeviceSeat>& seats, int d,
                 LayerRange down, LayerRange up) {
  return problem.down->MemoryBytes(d, seats[d], {{d, 0, down}}) +
         problem.up->MemoryBytes(d, seats[d], {{problem.num_devices() - 1 - d, 0, up}});
}

// Returns `link` with a cache by (device, cut): the search repeats its queries many times, and a
// transfer between stages of many devices is slow to compute.
std::function<Nanos(int, int)> Memoized(int num_devices, int num_layers,
                                        std::function<Nanos(int, int)> link) {
  const size_t width = num_layers + 1;
  return [width, link = std::move(link), known = std::vector<Nanos>(num_devices * width, -1)](
             int d, int cut) mutable {
    Nanos& time = known[d * width + cut];
    if (time < 0) time = link(d, cut);
    return time;
  };
}

// Same for the memory of a range of layers, by (device, first layer, number of layers). A large
// problem asks only about ranges that are not much longer than a stage.
std::function<int64_t(int, LayerRange)> MemoizedMemory(
    int num_devices, int num_layers, std::function<int64_t(int, LayerRange)> memory) {
  const size_t width = num_layers + 1;
  return [width, memory = std::move(memory),
          known = std::vector<std::vector<int64_t>>(num_devices * width)](
             int d, LayerRange layers) mutable {
    std::vector<int64_t>& by_size = known[d * width + layers.begin];
    const size_t size = layers.size();
    if (size >= by_size.size()) by_size.resize(size + 1, -1);
    if (by_size[size] < 0) by_size[size] = memory(d, layers);
    return by_size[size];
  };
}

// Returns whether a device has memory for a range of each backbone.
std::function<bool(int, LayerRange, LayerRange)> FitsOf(const PairProblem& problem,
                                                        const std::vector<DeviceSeat>& seats) {
  const int count = problem.num_devices();
  const auto front_memory =
      MemoizedMemory(count, problem.down->num_layers(), [&](int d, LayerRange layers) {
        return problem.down->MemoryBytes(d, seats[d], {{d, 0, layers}});
      });
  const auto back_memory =
      MemoizedMemory(count, problem.up->num_layers(), [&, count](int d, LayerRange layers) {
        return problem.up->MemoryBytes(d, seats[d], {{count - 1 - d, 0, layers}});
      });
  return [&, front_memory, back_memory](int d, LayerRange front, LayerRange back) {
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    return limit == 0 || front_memory(d, front) + back_memory(d, back) <= limit;
  };
}

// Without limits, every cut fits.
NestedProblem MakeNested(const PairProblem& problem, const std::vector<DeviceSeat>& seats,
                         bool has_limits) {
  NestedProblem nested;
  nested.num_devices = problem.num_devices();
  nested.is_shared = false;
  nested.num_front = problem.down->num_layers();
  nested.num_back = problem.up->num_layers();
  nested.front_time = [&](int d, LayerRange layers) {
    if (layers.empty()) return Nanos{0};
    return problem.num_down_micro_batches * problem.down->ComputeNs(seats[d], layers);
  };
  nested.back_time = [&](int d, LayerRange layers) {
    if (layers.empty()) return Nanos{0};
    return problem.num_up_micro_batches * problem.up->ComputeNs(seats[d], layers);
  };
  nested.memory_grows = !has_limits || !problem.recompute;
  nested.fits = [](int, LayerRange, LayerRange) { return true; };
  if (has_limits) nested.fits = FitsOf(problem, seats);
  nested.front_link = Memoized(nested.num_devices, nested.num_front, [&](int d, int cut) {
    return problem.num_down_micro_batches * problem.down->LinkNs(cut, seats[d], seats[d + 1]);
  });
  nested.back_link = Memoized(nested.num_devices, nested.num_back, [&](int d, int cut) {
    return problem.num_up_micro_batches * problem.up->LinkNs(cut, seats[d + 1], seats[d]);
  });
  return nested;
}

Nanos ExposedSync(const StageCosts& costs, const std::vector<LayerRange>& stages,
                  const std::vector<DeviceSeat>& seat_of_stage) {
  Nanos slack = 0, exposed = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    exposed = std::max(exposed, costs.SyncNs({seat_of_stage[s]}, stages[s]) - slack);
    slack += costs.BackwardNs(seat_of_stage[s], stages[s]);
  }
  return exposed;
}

using Devices = std::vector<std::pair<LayerRange, LayerRange>>;

// Returns the numbers that determine the optimum without limits.
std::vector<double> KeyOf(const PairProblem& problem, const std::vector<DeviceSeat>& seats,
                          const NestedProblem& nested) {
  std::vector<double> key = {-1.0, static_cast<double>(problem.num_down_micro_batches),
                             static_cast<double>(problem.num_up_micro_batches)};
  for (int d = 0; d < nested.num_devices; ++d) {
    for (const StageCosts* costs : {problem.down, problem.up}) {
      const std::vector<double> times = costs->TimesKey(seats[d]);
      key.insert(key.end(), times.begin(), times.end());
    }
    if (d + 1 == nested.num_devices) break;
    for (int cut = 1; cut < nested.num_front; ++cut) {
      key.push_back(static_cast<double>(nested.front_link(d, cut)));
    }
    for (int cut = 1; cut < nested.num_back; ++cut) {
      key.push_back(static_cast<double>(nested.back_link(d, cut)));
    }
  }
  return key;
}

// Returns the optimum without limits. It depends only on times, so schedules and shardings share
// it. Empty if the search gives up.
Devices CutWithoutLimits(const PairProblem& problem, const std::vector<DeviceSeat>& seats) {
  const NestedProblem nested = MakeNested(problem, seats, /*has_limits=*/false);
  KnownCuts* const known = problem.down->known_cuts();
  if (known == nullptr) return SolveNested(nested).devices;
  const auto [entry, is_new] = known->try_emplace(KeyOf(problem, seats, nested));
  if (is_new) {
    for (const auto& [front, back] : SolveNested(nested).devices) {
      entry->second.push_back(front);
      entry->second.push_back(back);
    }
  }
  Devices devices;
  for (size_t i = 0; i + 1 < entry->second.size(); i += 2) {
    devices.emplace_back(entry->second[i], entry->second[i + 1]);
  }
  return devices;
}

bool AllFit(const PairProblem& problem, const std::vector<DeviceSeat>& seats,
            const Devices& devices) {
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    if (limit == 0) continue;
    if (MemoryOf(problem, seats, d, devices[d].first, devices[d].second) > limit) return false;
  }
  return !devices.empty();
}

// Returns the maximum over devices and links.
Nanos LargestOf(const NestedProblem& nested, const Devices& devices) {
  Nanos largest = 0;
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    const auto& [front, back] = devices[d];
    largest = std::max(largest, nested.front_time(d, front) + nested.back_time(d, back));
    if (d + 1 == static_cast<int>(devices.size())) break;
    largest = std::max({largest, nested.front_link(d, front.end), nested.back_link(d, back.begin)});
  }
  return largest;
}

// Returns the error for evenly divided layers, as an example that does not fit.
absl::Status NothingFitsError(const PairProblem& problem, const std::vector<DeviceSeat>& seats) {
  const int count = problem.num_devices();
  const auto part = [count](const StageCosts& costs, int s) {
    return LayerRange{s * costs.num_layers() / count, (s + 1) * costs.num_layers() / count};
  };
  int worst = 0;
  int64_t most = 0, its_limit = 0;
  for (int d = 0; d < count; ++d) {
    const int64_t need =
        MemoryOf(problem, seats, d, part(*problem.down, d), part(*problem.up, count - 1 - d));
    const int64_t limit = problem.down->MemoryLimitBytes(seats[d]);
    if (d > 0 && need - limit <= most - its_limit) continue;
    worst = d;
    most = need;
    its_limit = limit;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no partition of two backbones over ", count,
                   " devices fits in memory: with layers ", "divided evenly, device ", worst,
                   " needs ", FormatBytes(most), " and the limit is ", FormatBytes(its_limit)));
}

}  // namespace

absl::StatusOr<PairPartition> PartitionPair(const PairProblem& problem) {
  DPIPE_CHECK(problem.down != nullptr && problem.up != nullptr);
  if (problem.num_devices() < 1) {
    return absl::InvalidArgumentError("a pipeline needs at least 1 device; requested 0");
  }
  DPIPE_RETURN_IF_ERROR(CheckSide(problem, *problem.down, "down"));
  DPIPE_RETURN_IF_ERROR(CheckSide(problem, *problem.up, "up"));
  PairPartition partition;
  partition.seats = ConsecutiveSeats(problem.replicas, problem.recompute);
  const NestedProblem nested = MakeNested(problem, partition.seats, /*has_limits=*/true);
  NestedSolution solution;
  // If the optimum without limits keeps to the limits, it is the optimum.
  solution.devices = CutWithoutLimits(problem, partition.seats);
  if (AllFit(problem, partition.seats, solution.devices)) {
    solution.largest = LargestOf(nested, solution.devices);
  } else {
    solution = SolveNested(nested);
  }
  if (solution.devices.empty()) return NothingFitsError(problem, partition.seats);
  for (const auto& [front, back] : solution.devices) {
    partition.down.push_back(front);
    partition.up.insert(partition.up.begin(), back);
  }
  partition.largest_load_ns = solution.largest;
  const std::vector<DeviceSeat> reversed(partition.seats.rbegin(), partition.seats.rend());
  partition.exposed_sync_ns = std::max(ExposedSync(*problem.down, partition.down, partition.seats),
                                       ExposedSync(*problem.up, partition.up, reversed));
  const Nanos count = problem.num_down_micro_batches + problem.num_up_micro_batches;
  const Nanos average = (solution.largest + count - 1) / count;
  partition.bound_ns =
      solution.largest + (2 * problem.num_devices() - 2) * average + partition.exposed_sync_ns;
  return partition;
}

}  // namespace dpipe

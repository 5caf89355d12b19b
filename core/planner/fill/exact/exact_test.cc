#include "core/planner/fill/exact/exact.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/testing/random_fill.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Tries all sequences of batches of one device, gap by gap and step by step.
class BruteForceDevice {
 public:
  BruteForceDevice(const FrozenWork& work, std::vector<int> units, const DeviceGaps& device,
                   const PackOptions& options)
      : work_(work), units_(std::move(units)), device_(device), options_(options) {
    for (const Chain& chain : work.chains) done_.emplace_back(chain.steps.size(), 0);
    Gap(0);
  }
  Nanos least_leftover() const { return least_; }

 private:
  void Gap(int g) {
    if (g == static_cast<int>(device_.gaps.size())) {
      std::vector<std::vector<int>> before = done_;
      for (size_t c = 0; c < units_.size(); ++c) done_[c].assign(done_[c].size(), units_[c]);
      least_ = std::min(least_, TimeSince(before));
      done_ = std::move(before);
      return;
    }
    const std::vector<std::vector<int>> before = done_;
    if (device_.gaps[g] < options_.min_gap_ns) return Gap(g + 1);
    Step(g, 0, 0, before);
  }

  void Step(int g, size_t c, size_t s, const std::vector<std::vector<int>>& before) {
    if (c == units_.size()) {
      if (TimeSince(before) <= device_.gaps[g]) Gap(g + 1);
      return;
    }
    if (s == done_[c].size()) return Step(g, c + 1, 0, before);
    const int have = done_[c][s];
    const int ready = s == 0 ? units_[c] : done_[c][s - 1];
    for (int next = have; next <= ready; ++next) {
      if (!options_.partial_batch && next != have && next - have != units_[c]) continue;
      done_[c][s] = next;
      Step(g, c, s + 1, before);
    }
    done_[c][s] = have;
  }

  Nanos TimeSince(const std::vector<std::vector<int>>& before) const {
    Nanos sum = 0;
    for (size_t c = 0; c < units_.size(); ++c) {
      for (size_t s = 0; s < done_[c].size(); ++s) {
        const int units = done_[c][s] - before[c][s];
        if (units == 0) continue;
        const bool continues = s > 0 && !work_.chains[c].steps[s].new_instruction &&
                               done_[c][s - 1] == done_[c][s] && before[c][s - 1] == before[c][s];
        sum += work_.chains[c].step_ns[s][units] + (continues ? 0 : work_.instruction_overhead_ns);
      }
    }
    return sum;
  }

  const FrozenWork& work_;
  const std::vector<int> units_;
  const DeviceGaps& device_;
  const PackOptions options_;
  std::vector<std::vector<int>> done_;  // [chain][step]
  Nanos least_ = Nanos{1} << 60;
};

using Value = std::pair<Nanos, Nanos>;  // latest finish, total leftover

class BruteForce {
 public:
  BruteForce(const RandomFillInstance& instance, const AssignOptions& options)
      : instance_(instance), options_(options) {
    left_.assign(instance.work.chains.size(), instance.work.num_units);
    Nanos barrier = 0;
    for (const DeviceGaps& device : instance.devices) {
      barrier = std::max({barrier, device.end_ns, device.optimizer_ns});
    }
    Device(0, {barrier, 0});
  }
  Value best() const { return best_; }

 private:
  void Device(size_t d, Value so_far) {
    if (d == instance_.devices.size()) {
      if (std::all_of(left_.begin(), left_.end(), [](int n) { return n == 0; })) {
        best_ = std::min(best_, so_far);
      }
      return;
    }
    std::vector<int> units(left_.size(), 0);
    Share(d, so_far, 0, units);
  }

  bool MayTake(size_t d, size_t c, int units) const {
    const int num_devices = static_cast<int>(instance_.devices.size());
    if (options_.even_samples) {
      return units == EvenShare(instance_.work.num_units, num_devices, static_cast<int>(d));
    }
    const std::vector<int>& limit = instance_.devices[d].max_units;
    return limit.empty() || units <= limit[c];
  }

  void Share(size_t d, Value so_far, size_t c, std::vector<int>& units) {
    if (c < units.size()) {
      const int left = left_[c];
      for (units[c] = 0; units[c] <= left; ++units[c]) {
        if (!MayTake(d, c, units[c])) continue;
        left_[c] = left - units[c];
        Share(d, so_far, c + 1, units);
      }
      left_[c] = left;
      return;
    }
    auto [it, fresh] = leftover_.insert({{d, units}, 0});
    if (fresh) {
      it->second = BruteForceDevice(instance_.work, units, instance_.devices[d], options_.pack)
                       .least_leftover();
    }
    const Nanos leftover = it->second;
    Device(d + 1, {std::max(so_far.first, instance_.devices[d].end_ns +
                                              TimeAtSpeed(leftover, instance_.devices[d].speed)),
                   so_far.second + leftover});
  }

  const RandomFillInstance& instance_;
  const AssignOptions options_;
  std::vector<int> left_;  // by chain: units not assigned yet
  std::map<std::pair<size_t, std::vector<int>>, Nanos> leftover_;
  Value best_ = {Nanos{1} << 60, 0};
};

// Checks that each unit's steps run in order, that no gap is overfull, and that all units are
// placed.
void CheckFeasible(const RandomFillInstance& instance, const Assignment& assignment) {
  const FrozenWork& work = instance.work;
  std::vector<int> total(work.chains.size(), 0);
  for (size_t d = 0; d < instance.devices.size(); ++d) {
    const Packing& packing = assignment.packings[d];
    std::vector<std::vector<int>> next(work.chains.size(), std::vector<int>(work.num_units, 0));
    const int num_gaps = static_cast<int>(instance.devices[d].gaps.size());
    std::vector<Nanos> used(num_gaps + 1, 0);
    int last_gap = 0;
    for (const Placement& p : packing.placements) {
      ASSERT_GE(p.gap, last_gap);
      last_gap = p.gap;
      used[p.gap] += PlacementTime(work, p);
      for (int s = p.step_begin; s < p.step_end; ++s) {
        for (int u = p.unit_begin; u < p.unit_end; ++u) ASSERT_EQ(next[p.chain][u]++, s);
      }
    }
    for (size_t c = 0; c < work.chains.size(); ++c) {
      total[c] += assignment.units[d][c];
      for (int u = 0; u < work.num_units; ++u) {
        ASSERT_EQ(next[c][u], u < assignment.units[d][c] ? work.chains[c].steps.size() : 0);
      }
    }
    for (int g = 0; g < num_gaps; ++g) ASSERT_LE(used[g], instance.devices[d].gaps[g]);
    ASSERT_EQ(used[num_gaps], packing.leftover_ns);
  }
  for (int n : total) ASSERT_EQ(n, work.num_units);
}

TEST(ExactTest, ByHand) {
  // Two units of steps 3 and 4. Device 0 has gaps of 7 and 4, device 1 has none. Both units go to
  // device 0: both first steps (6), then one second step (4). The other second step (4) is left.
  // The greedy assignment finds this, too.
  RandomFillInstance instance;
  instance.work.num_units = 2;
  Chain chain;
  chain.steps = {{0, 0, true}, {0, 1, false}};
  chain.step_ns = {{0, 3, 6}, {0, 4, 8}};
  chain.total_ns = {0, 7, 14};
  instance.work.chains = {chain};
  instance.devices = {{{7, 4}, 20, 20}, {{}, 20, 20}};
  const absl::StatusOr<ExactAssignment> exact =
      AssignUnitsExactly(instance.work, instance.devices, {}, {});
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_TRUE(exact->proven);
  EXPECT_EQ(exact->finish_ns, 24);
  EXPECT_EQ(exact->leftover_ns, 4);
  EXPECT_EQ(exact->finish_bound_ns, 24);
  CheckFeasible(instance, exact->assignment);
}

TEST(ExactTest, RejectsLargeInstances) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  const RandomFillInstance instance = MakeRandomFill(random, {});
  ExactOptions options;
  options.max_binaries = 3;
  const absl::StatusOr<ExactAssignment> exact =
      AssignUnitsExactly(instance.work, instance.devices, {}, options);
  EXPECT_EQ(exact.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(exact.status().message().find("more than the limit of 3"), std::string::npos)
      << exact.status();
}

TEST(ExactTest, RoundedLongTimesStillFit) {
  RandomStream random(2, 0, 0, RandomPurpose::kTest);
  RandomFillOptions options;
  options.max_devices = 2;
  options.max_step_ns = 30000000;
  const RandomFillInstance instance = MakeRandomFill(random, options);
  const absl::StatusOr<ExactAssignment> exact =
      AssignUnitsExactly(instance.work, instance.devices, {}, {});
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_GT(exact->resolution_ns, 1);
  CheckFeasible(instance, exact->assignment);
}

TEST(ExactTest, EqualsBruteForce) {
  RandomStream random(3, 0, 0, RandomPurpose::kTest);
  RandomFillOptions sizes;
  sizes.max_devices = 2;
  sizes.min_gaps = 0;
  sizes.max_gaps = 2;
  sizes.min_steps = 1;
  sizes.max_steps = 3;
  sizes.min_units = 1;
  sizes.max_units = 3;
  sizes.max_step_ns = 12;
  for (int round = 0; round < 250; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    RandomFillInstance instance = MakeRandomFill(random, sizes);
    AssignOptions options;
    options.pack.partial_batch = random.NextBelow(4) > 0;
    options.pack.min_gap_ns = random.NextBelow(8);
    options.even_samples = random.NextBelow(4) == 0;
    for (DeviceGaps& device : instance.devices) {
      if (random.NextBelow(3) == 0) device.speed = random.NextBelow(2) == 0 ? 0.5 : 2;
      if (random.NextBelow(4) == 0 && !options.even_samples) {
        device.max_units.assign(instance.work.chains.size(), 2);
        instance.devices[0].max_units.clear();
      }
    }
    const absl::StatusOr<ExactAssignment> exact =
        AssignUnitsExactly(instance.work, instance.devices, options, {});
    ASSERT_TRUE(exact.ok()) << exact.status();
    ASSERT_TRUE(exact->proven);
    const Value best = BruteForce(instance, options).best();
    ASSERT_EQ(exact->finish_ns, best.first);
    ASSERT_EQ(exact->leftover_ns, best.second);
    ASSERT_NO_FATAL_FAILURE(CheckFeasible(instance, exact->assignment));
  }
}

}  // namespace
}  // namespace dpipe

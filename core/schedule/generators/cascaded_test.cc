#include <algorithm>

#include "core/base/philox.h"
#include "core/schedule/builders/one_after_another.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/generators.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

ScheduleRequest RequestOf(int p, std::vector<int> micro_batches) {
  ScheduleRequest request;
  request.num_devices = p;
  request.num_micro_batches = micro_batches[0];
  request.backbone_micro_batches = std::move(micro_batches);
  return request;
}

TEST(CascadedTest, TwoAlikeAreChimeraOrBetter) {
  for (int p = 2; p <= 8; p += 2) {
    for (int m = 1; m <= 2 * p; ++m) {
      ScheduleRequest request = RequestOf(p, {m, m});
      request.costs.assign(2 * p, {1, 1, 0});
      const Schedule schedule = NamedSchedule("cascaded", request);
      const int missing = (p - 2 * m % p) % p;
      EXPECT_LE(schedule.Makespan(request.costs), 4 * m + p - 2 + missing) << p << " " << m;
      if (missing > 0) continue;
      EXPECT_EQ(schedule.Makespan(request.costs), 4 * m + p - 2) << p << " " << m;
    }
  }
}

TEST(CascadedTest, ChainsAlternateInDirection) {
  const Schedule schedule = NamedSchedule("cascaded", RequestOf(3, {2, 4, 1}));
  ASSERT_EQ(schedule.chains().size(), 3u);
  EXPECT_EQ(schedule.chains()[0].devices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(schedule.chains()[1].devices, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(schedule.chains()[2].devices, (std::vector<int>{0, 1, 2}));
  for (int b = 0; b < 3; ++b) EXPECT_EQ(schedule.chains()[b].backbone, b);
  EXPECT_EQ(schedule.num_micro_batches(1), 4);
}

TEST(CascadedTest, NeverSlowerThanOneAfterAnother) {
  RandomStream stream(9, 0, 0, RandomPurpose::kTest);
  double ratio = 0;
  const int num_trials = 60;
  for (int trial = 0; trial < num_trials; ++trial) {
    const int p = 1 + static_cast<int>(stream.NextBelow(6));
    const int num_backbones = 2 + static_cast<int>(stream.NextBelow(2));
    std::vector<int> counts;
    std::vector<Schedule> each;
    ScheduleRequest request;
    for (int b = 0; b < num_backbones; ++b) {
      counts.push_back(1 + static_cast<int>(stream.NextBelow(12)));
      each.push_back(NamedSchedule("1f1b", {p, counts.back()}));
    }
    request = RequestOf(p, counts);
    const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(50)); };
    for (int s = 0; s < num_backbones * p; ++s) request.costs.push_back({draw(), draw(), draw()});
    const Schedule joint = NamedSchedule("cascaded", request);
    const Schedule split = NamedSchedule("cascaded-zb", request);
    for (const Schedule* schedule : {&joint, &split}) {
      EXPECT_GE(schedule->Makespan(request.costs), MakespanBound(*schedule, request.costs));
    }
    EXPECT_LE(split.Makespan(request.costs), joint.Makespan(request.costs));

    // The same stages on the same devices, one backbone at a time.
    std::vector<Schedule> placed;
    for (int b = 0; b < num_backbones; ++b) {
      ScheduleChain chain = joint.chains()[b];
      chain.backbone = 0;
      std::vector<std::vector<Slot>> slots(p);
      for (int k = 0; k < p; ++k) slots[chain.devices[k]] = each[b].slots(k);
      placed.push_back(*Schedule::Create("1f1b", {chain}, slots));
    }
    const Nanos in_turn = OneAfterAnother(placed)->Makespan(request.costs);
    EXPECT_LE(joint.Makespan(request.costs), in_turn);
    ratio += static_cast<double>(joint.Makespan(request.costs)) / static_cast<double>(in_turn);
  }
  EXPECT_LT(ratio / num_trials, 0.95);  // it does fill ramps
}

TEST(CascadedTest, FoldedChainsTurnWhereOthersBegin) {
  const Schedule schedule = NamedSchedule("cascaded-v", RequestOf(3, {2, 4}));
  ASSERT_EQ(schedule.chains().size(), 2u);
  EXPECT_EQ(schedule.chains()[0].devices, (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(schedule.chains()[1].devices, (std::vector<int>{2, 1, 0, 0, 1, 2}));
  ScheduleRequest request = RequestOf(4, {5, 6});
  for (int limit = 2; limit <= 12; ++limit) {
    request.peak_limit = limit;
    EXPECT_LE(PeakStashedOfAll(NamedSchedule("cascaded-v", request)), limit);
  }
  request.peak_limit = 1;
  EXPECT_EQ(MakeSchedule("cascaded-v", request).status().message(),
            "schedule cascaded-v: a limit of 1 pair; a micro-batch makes 2 per device");
}

TEST(CascadedTest, HonoursLimitsAndRefusesWhatCannotBe) {
  ScheduleRequest request = RequestOf(4, {5, 6});
  for (int limit = 1; limit <= 8; ++limit) {
    request.peak_limit = limit;
    EXPECT_LE(PeakStashedOfAll(NamedSchedule("cascaded", request)), limit);
    EXPECT_LE(PeakStashedOfAll(NamedSchedule("cascaded-zb", request)), limit);
  }
  EXPECT_EQ(MakeSchedule("cascaded", RequestOf(2, {3, 0})).status().message(),
            "schedule cascaded: backbone 1 has 0 micro-batches; it needs at least one");
  request.costs.assign(4, {1, 1, 1});
  EXPECT_EQ(MakeSchedule("cascaded", request).status().message(),
            "schedule cascaded: costs of 4 stages; it has 8");
}

}  // namespace
}  // namespace dpipe

// Checks that every named schedule computes the same as one device: lowered and verified like the
// planner's, cut at random, in fp32 and bf16, with recomputation, replicas, several groups,
// self-conditioning.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/runtime/stage_routes.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"
#include "gtest/gtest.h"
#include "tests/testlib/experiment.h"

namespace dpipe {
namespace {

using testlib::ExpectSame;
using testlib::Experiment;
using testlib::PlanOf;

class ScheduleTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Makes the schedule on few devices, if possible with more than one micro-batch per device.
  Schedule Make(bool self_conditioning) const {
    const ScheduleTraits traits = *TraitsOf(GetParam());
    for (int p : {3, 2, 4, 1}) {
      for (int m = p + 1; m <= 4 * p; ++m) {
        ScheduleRequest request;
        request.num_devices = p;
        request.num_micro_batches = m;
        request.self_conditioning = self_conditioning;
        if (!CheckRequest(GetParam(), traits, request).ok()) continue;
        auto schedule = MakeSchedule(GetParam(), request);
        if (schedule.ok()) return *std::move(schedule);
      }
    }
    ADD_FAILURE() << "no request is possible";
    return *MakeSchedule("single", {});
  }
  Experiment Model() const {
    Experiment experiment;
    experiment.model.u_shaped = true;
    experiment.model.second_backbone = TraitsOf(GetParam())->num_backbones > 1;
    return experiment;
  }
};

TEST_P(ScheduleTest, ComputesWhatOneDeviceComputes) {
  const Schedule schedule = Make(/*self_conditioning=*/false);
  Experiment experiment = Model();
  ExpectSame(experiment, schedule, "fp32");
  experiment.dtype = DType::kBf16;
  experiment.plan.seed = 2;
  experiment.plan.recompute = true;
  ExpectSame(experiment, schedule, "bf16, recomputing, cut otherwise");
  experiment.dtype = DType::kF32;
  experiment.plan.seed = 3;
  experiment.direct = true;
  ExpectSame(experiment, schedule, "in a direct plan");
}

TEST_P(ScheduleTest, InSeveralGroupsAndWithSeveralRanksADevice) {
  const Schedule schedule = Make(/*self_conditioning=*/false);
  Experiment experiment = Model();
  experiment.plan.num_groups = 2;
  ExpectSame(experiment, schedule, "two groups");
  experiment.plan.micro_batch_sizes.assign(experiment.model.second_backbone ? 2 : 1, 2);
  experiment.plan.num_groups = 1;
  experiment.plan.replicas.assign(schedule.num_devices(), 1);
  experiment.plan.replicas.back() = 2;
  ExpectSame(experiment, schedule, "two ranks of the last device");
}

TEST_P(ScheduleTest, WithSelfConditioning) {
  Experiment experiment = Model();
  if (experiment.model.second_backbone) {
    GTEST_SKIP() << "the toy's second backbone has no self-conditioning";
  }
  experiment.model.self_conditioning = true;
  ExpectSame(experiment, Make(/*self_conditioning=*/true), "two laps");
}

// Returns the sum of the positions of all receives in their ranks' lists.
int64_t PlacesOfReceives(const Plan& plan) {
  int64_t sum = 0;
  for (const DeviceProgram& device : plan.devices()) {
    for (int i = 0; i < device.instructions_size(); ++i) {
      if (device.instructions(i).kind() == Instruction::RECV) sum += i;
    }
  }
  return sum;
}

// Receives may be posted many slots before the pass that needs them.
TEST_P(ScheduleTest, WithReceivesPostedEarly) {
  const Schedule schedule = Make(/*self_conditioning=*/false);
  Experiment experiment = Model();
  experiment.plan.recv_lookahead = 0;
  const auto latest = PlanOf(experiment, schedule);
  ASSERT_TRUE(latest.ok()) << latest.status();
  for (int lookahead : {2, 5}) {
    experiment.plan.recv_lookahead = lookahead;
    ExpectSame(experiment, schedule, absl::StrCat("receives ", lookahead, " slots ahead"));
    const auto early = PlanOf(experiment, schedule);
    ASSERT_TRUE(early.ok()) << early.status();
    const bool has_receives = latest->devices_per_pipeline() > 1;
    EXPECT_EQ(PlacesOfReceives(*early) < PlacesOfReceives(*latest), has_receives) << lookahead;
  }
}

int NumFrozenPasses(const DeviceProgram& device, int component) {
  return static_cast<int>(std::count_if(
      device.instructions().begin(), device.instructions().end(), [&](const Instruction& i) {
        return i.kind() == Instruction::FROZEN_FORWARD && i.component() == component;
      }));
}

// Only the last rank runs one component and sends its outputs to all that read them. The other
// component is placed in any gap.
TEST_P(ScheduleTest, WithAFrozenComponentOnSomeRanks) {
  const Schedule schedule = Make(/*self_conditioning=*/false);
  Experiment experiment = Model();
  experiment.plan.frozen_hosts.assign(schedule.num_devices(), false);
  experiment.plan.frozen_hosts.back() = true;
  for (int groups : {1, 2}) {
    experiment.plan.num_groups = groups;
    ExpectSame(experiment, schedule, absl::StrCat("on one rank of each of ", groups, " groups"));
    const auto plan = PlanOf(experiment, schedule);
    ASSERT_TRUE(plan.ok()) << plan.status();
    int hosted = 0;
    while (plan->components(hosted).name() != "text") ++hosted;
    for (const DeviceProgram& device : plan->devices()) {
      const bool hosts = (device.rank() + 1) % schedule.num_devices() == 0;
      EXPECT_EQ(NumFrozenPasses(device, hosted) > 0, hosts) << "rank " << device.rank();
    }
  }
}

// Every message has the length in the plan.
TEST_P(ScheduleTest, MessagesHaveThePlansSizes) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Experiment experiment = Model();
    experiment.plan.seed = seed;
    experiment.plan.num_groups = 2;
    experiment.dtype = seed % 2 == 0 ? DType::kF32 : DType::kBf16;
    experiment.model.self_conditioning = seed == 3 && !experiment.model.second_backbone;
    const auto plan = PlanOf(experiment, Make(experiment.model.self_conditioning));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const nn::Model model = testlib::MakeToyModel(experiment.model);
    const auto routes = RouteStages(*plan, model);
    ASSERT_TRUE(routes.ok()) << routes.status();
    int compared = 0;
    for (const DeviceProgram& device : plan->devices()) {
      for (const Instruction& instruction : device.instructions()) {
        if (instruction.kind() != Instruction::SEND) continue;
        if (instruction.payload() == Instruction::FROZEN_OUTPUT) continue;
        const StageRoutes& stage = (*routes)[instruction.stage()];
        int64_t bytes = 0;
        for (ValueId id : instruction.payload() == Instruction::ACTIVATION ? stage.activations_out
                                                                           : stage.gradients_out) {
          bytes += model.component(stage.component).program.BytesPerSample(id, experiment.dtype);
        }
        const int samples = instruction.samples().end() - instruction.samples().begin();
        EXPECT_EQ(instruction.bytes(), bytes * samples) << instruction.ShortDebugString();
        ++compared;
      }
    }
    EXPECT_EQ(compared > 0, plan->devices_per_pipeline() > 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ScheduleTest, ::testing::ValuesIn(ScheduleNames()),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return "schedule_" + name;
                         });

}  // namespace
}  // namespace dpipe

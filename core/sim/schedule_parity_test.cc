// If messages, reductions and optimizer steps are free, simulating a plan and running its schedule
// (Schedule::StartTimes) are two implementations of the same computation.
#include <map>
#include <tuple>

#include "core/base/philox.h"
#include "core/schedule/testing/random_plan.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Only computation: no bytes, no frozen work, no optimizer.
RandomInstance FreeInstance(RandomStream& stream) {
  RandomPlanOptions options;
  options.profile.max_frozen_components = 0;
  options.recompute = options.heterogeneous_devices = false;
  RandomInstance instance = MakeRandomInstance(stream, options);
  instance.profile.set_optimizer_fixed_ns(0);
  for (ComponentProfile& component : *instance.profile.mutable_components()) {
    component.set_self_conditioning_bytes_per_sample(0);
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.set_optimizer_step_ns(0);
      layer.set_parameter_bytes(0);
      layer.set_trainable_parameter_bytes(0);
    }
    for (ValueProfile& value : *component.mutable_values()) value.set_bytes_per_sample(0);
  }
  instance.cluster = IdealCluster(instance.layout.num_devices);
  instance.options.global_norm = false;
  instance.options.frozen = FrozenPolicy::kFirst;
  const auto cost = CostModel::Create(instance.profile, instance.cluster);
  auto plan = LowerPlan(instance.layout, instance.schedule, instance.options, *cost);
  EXPECT_TRUE(plan.ok()) << plan.status();
  instance.plan = *std::move(plan);
  return instance;
}

std::vector<PassCosts> StageCostsOf(const RandomInstance& instance, const CostModel& cost) {
  std::vector<PassCosts> costs;
  for (const StagePlacement& stage : instance.layout.stages) {
    const ChainPlacement& chain = instance.layout.chains[stage.chain];
    const int batch = chain.micro_batch_size / instance.layout.replicas[stage.device];
    const LayerTimes& times = cost.Times(BackboneComponent(cost, chain.backbone), batch);
    costs.push_back({times.Forward(stage.layers), times.InputGrad(stage.layers),
                     times.WeightGrad(stage.layers)});
  }
  return costs;
}

Instruction::Kind KindOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return Instruction::FORWARD;
    case Pass::kBackward:
      return Instruction::BACKWARD;
    case Pass::kInputGrad:
      return Instruction::INPUT_GRAD;
    default:
      return Instruction::WEIGHT_GRAD;
  }
}

TEST(ScheduleParityTest, FreeMessagesGiveTheSchedulesOwnTimes) {
  for (int i = 0; i < 1000; ++i) {
    RandomStream stream(51, i, 0, RandomPurpose::kTest);
    const RandomInstance instance = FreeInstance(stream);
    const auto cost = CostModel::Create(instance.profile, instance.cluster);
    const std::vector<PassCosts> costs = StageCostsOf(instance, *cost);
    const auto simulation = SimulateSteadyState(instance.plan, *cost);
    ASSERT_TRUE(simulation.ok()) << i << ": " << simulation.status();
    // In the first step all ranks start together. Collects the start of each pass on each rank (of
    // its first part, if it is split) and the end of the last.
    std::map<std::tuple<int, int, int, int>, Nanos> starts;  // rank, kind, stage, micro-batch
    Nanos makespan = 0;
    for (const StreamEvent& event : simulation->events) {
      if (event.step != 0 || event.stream != TraceEvent::COMPUTE) continue;
      const Instruction& pass = instance.plan.devices(event.rank).instructions(event.instruction);
      makespan = std::max(makespan, event.end_ns);
      const auto key = std::make_tuple(event.rank, static_cast<int>(pass.kind()), pass.stage(),
                                       pass.micro_batch());
      const auto [entry, added] = starts.emplace(key, event.start_ns);
      if (!added) entry->second = std::min(entry->second, event.start_ns);
    }
    ASSERT_EQ(makespan, instance.schedule.Makespan(costs)) << i;
    const std::vector<std::vector<Nanos>> expected = instance.schedule.StartTimes(costs);
    for (int rank = 0; rank < instance.layout.num_devices; ++rank) {
      const int device = PositionOf(instance.layout, rank).device;
      for (size_t k = 0; k < instance.schedule.slots(device).size(); ++k) {
        const Slot& slot = instance.schedule.slots(device)[k];
        const auto key = std::make_tuple(rank, static_cast<int>(KindOf(slot.pass)), slot.stage,
                                         slot.micro_batch);
        ASSERT_EQ(starts.at(key), expected[device][k]) << i << " rank " << rank << " slot " << k;
      }
    }
  }
}

}  // namespace
}  // namespace dpipe

// The runtime on emulated devices and the simulator are two implementations of the same model.
#include "core/emulation/emulate.h"

#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/emulation/compare_traces.h"
#include "core/schedule/testing/random_plan.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kSteps = 4;

CostModel CostOf(const RandomInstance& instance) {
  auto cost = CostModel::Create(instance.profile, instance.cluster);
  DPIPE_CHECK(cost.ok()) << cost.status();
  return *std::move(cost);
}

TraceDifference Compare(const Plan& plan, const CostModel& expected_cost, const Emulation& actual) {
  SimulateOptions options;
  options.num_steps = kSteps;
  const auto simulation = Simulate(plan, expected_cost, options);
  DPIPE_CHECK(simulation.ok()) << simulation.status();
  const auto difference =
      CompareTraces(plan, simulation->events, EventsOf(actual.trace), WorksAcrossSteps(plan));
  DPIPE_CHECK(difference.ok()) << difference.status();
  return *difference;
}

// Every computation of a steady step matches to the nanosecond, on random plans of all kinds.
TEST(EmulateTest, RandomPlansTakeAsLongAsSimulated) {
  constexpr int kInstances = 1000;
  RandomStream stream(1, 0, 0, RandomPurpose::kTest);
  for (int i = 0; i < kInstances; ++i) {
    const RandomInstance instance = MakeRandomInstance(stream);
    const CostModel cost = CostOf(instance);
    const auto emulation = Emulate(instance.plan, cost);
    ASSERT_TRUE(emulation.ok()) << "instance " << i << ": " << emulation.status();
    EXPECT_LT(emulation->loss_error, 1e-5) << "instance " << i;
    const TraceDifference difference = Compare(instance.plan, cost, *emulation);
    EXPECT_EQ(difference.worst.delay_ns(), 0)
        << "instance " << i << ", " << instance.schedule.name() << ", first of all "
        << DifferenceText(instance.plan, difference.first);
  }
}

// A simulator that is wrong about one layer by a fifth is caught, and the place is reported.
TEST(EmulateTest, AWrongFigureOfTheSimulatorShowsAtItsInstruction) {
  RandomStream stream(2, 0, 0, RandomPurpose::kTest);
  int caught = 0;
  for (int i = 0; i < 20; ++i) {
    const RandomInstance instance = MakeRandomInstance(stream);
    const CostModel cost = CostOf(instance);
    const auto emulation = Emulate(instance.plan, cost);
    ASSERT_TRUE(emulation.ok()) << emulation.status();
    RandomInstance wrong = instance;
    const int component = cost.backbone();
    const int layer = wrong.profile.components(component).layers_size() / 2;
    for (LayerTiming& timing :
         *wrong.profile.mutable_components(component)->mutable_layers(layer)->mutable_timings()) {
      timing.set_forward_ns(timing.forward_ns() * 6 / 5 + 100);
    }
    const TraceDifference difference = Compare(instance.plan, CostOf(wrong), *emulation);
    ASSERT_NE(difference.worst.delay_ns(), 0) << i;
    const Instruction& at =
        instance.plan.devices(difference.first.rank).instructions(difference.first.instruction);
    caught += at.kind() == Instruction::FORWARD ? 1 : 0;
  }
  EXPECT_GE(caught, 10);  // otherwise the first one to end late has waited for it
}

}  // namespace
}  // namespace dpipe

#include "core/profile/typical_times.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

LayerSamples Samples(std::vector<Nanos> forward, std::vector<Nanos> input_grad,
                     std::vector<Nanos> weight_grad) {
  LayerSamples samples;
  samples.forward_ns = std::move(forward);
  samples.input_grad_ns = std::move(input_grad);
  samples.weight_grad_ns = std::move(weight_grad);
  return samples;
}

TEST(MidmeanTest, AveragesMiddleHalf) {
  EXPECT_EQ(Midmean({}), 0);
  EXPECT_EQ(Midmean({7}), 7);
  EXPECT_EQ(Midmean({3, 1, 2}), 2);
  EXPECT_EQ(Midmean({1000, 3, 0, 5}), 4);
  EXPECT_EQ(Midmean({8, 1, 2, 3, 4, 1000, 6, 7}), 5);  // of 3, 4, 6, 7
}

TEST(TypicalLayerTimesTest, UndisturbedPassesGiveTheirTimes) {
  ComponentSamples worker;
  worker.layers = {Samples({10, 10, 10}, {20, 20, 20}, {}), Samples({5, 5, 5}, {}, {8, 8, 8})};
  const std::vector<TypicalTimes> times = TypicalLayerTimes({worker});
  ASSERT_EQ(times.size(), 2);
  EXPECT_EQ(times[0].forward_ns, 10);
  EXPECT_EQ(times[0].input_grad_ns, 20);
  EXPECT_EQ(times[0].weight_grad_ns, 0);
  EXPECT_EQ(times[1].weight_grad_ns, 8);
}

// Another program interrupts each pass in another layer, so no median includes it.
TEST(TypicalLayerTimesTest, TimeMissedByMediansIsDistributed) {
  ComponentSamples worker;
  worker.layers = {Samples({100, 10, 10, 10}, {}, {}), Samples({10, 100, 10, 10}, {}, {}),
                   Samples({40, 40, 130, 40}, {}, {}), Samples({30, 30, 30, 120}, {}, {})};
  const std::vector<TypicalTimes> times = TypicalLayerTimes({worker});  // medians 10, 10, 40, 30
  EXPECT_EQ(times[0].forward_ns, 20);                                   // a pass takes 180
  EXPECT_EQ(times[2].forward_ns, 80);
  EXPECT_EQ(times[3].forward_ns, 60);
}

TEST(TypicalLayerTimesTest, RatiosAreOfAllWorkersAndSumIsOfSlowest) {
  ComponentSamples fast, slow;
  fast.layers = {Samples({1000}, {200}, {400})};
  slow.layers = {Samples({3000}, {600}, {800})};
  fast.load_ns = {1};
  slow.load_ns = {3};
  const std::vector<TypicalTimes> times = TypicalLayerTimes({fast, slow});
  // The means are 2000, 400 and 600; passes take 1600 and 4400.
  EXPECT_NEAR(times[0].forward_ns, 2000 * 4400 / 3000.0, 2);
  EXPECT_NEAR(times[0].input_grad_ns, 400 * 4400 / 3000.0, 2);
  EXPECT_NEAR(times[0].weight_grad_ns, 600 * 4400 / 3000.0, 2);
  EXPECT_EQ(TypicalLoadTime({fast, slow}), 2);
}

// Each worker is disturbed in a different pass, so each step waits for one of them.
TEST(TypicalLayerTimesTest, EachPassWaitsForSlowestWorker) {
  ComponentSamples a, b;
  a.layers = {Samples({10, 30, 10, 30}, {}, {})};
  b.layers = {Samples({30, 10, 30, 10}, {}, {})};
  EXPECT_EQ(TypicalLayerTimes({a, b})[0].forward_ns, 30);
}

}  // namespace
}  // namespace dpipe

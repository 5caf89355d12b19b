#include "bench/transports/communication_probe.h"

#include <thread>

#include "bench/transports/lossy_communicator.h"
#include "core/comm/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;

// Returns all ranks' answers.
std::vector<absl::StatusOr<TrafficTime>> Measure(
    const std::vector<std::unique_ptr<Communicator>>& communicators, Traffic traffic,
    int64_t size_bytes) {
  std::vector<absl::StatusOr<TrafficTime>> times(communicators.size(), absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < communicators.size(); ++i) {
    threads.emplace_back([&, i] {
      ProbeOptions options;
      options.max_repeats = 5;
      times[i] =
          MeasureTraffic(communicators[i].get(), Device::Cpu(), traffic, size_bytes, options);
      if (!times[i].ok()) communicators[i]->Abort(times[i].status());
    });
  }
  for (auto& thread : threads) thread.join();
  return times;
}

// Includes shards of different sizes.
TEST(CommunicationProbeTest, EverythingIsMeasuredAndChecked) {
  for (int num_ranks : {2, 3}) {
    const auto communicators = CreateInProcessCommunicators(num_ranks);
    for (Traffic traffic : AllTraffic()) {
      for (int64_t size_bytes : {4, 4 * 1022, 1 << 20}) {
        const auto times = Measure(communicators, traffic, size_bytes);
        for (const auto& time : times) {
          ASSERT_TRUE(time.ok()) << TrafficName(traffic) << ": " << time.status();
          EXPECT_EQ(time->median_ns, times[0]->median_ns) << "all have the same";
          EXPECT_LE(time->fastest_ns, time->median_ns);
          EXPECT_LE(time->median_ns, time->slowest_ns);
          EXPECT_EQ(time->num_ranks, num_ranks);
          EXPECT_EQ(time->size_bytes, size_bytes);
        }
      }
    }
  }
}

TEST(CommunicationProbeTest, AWrongNumberIsSeen) {
  for (Traffic traffic : AllTraffic()) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (auto& inner : CreateInProcessCommunicators(2)) {
      communicators.push_back(MakeLossy(std::move(inner)));
    }
    const auto times = Measure(communicators, traffic, 4096);
    ASSERT_FALSE(times[1].ok()) << TrafficName(traffic);
    EXPECT_EQ(times[1].status().code(), absl::StatusCode::kDataLoss) << times[1].status();
    EXPECT_THAT(std::string(times[1].status().message()), HasSubstr(TrafficName(traffic)));
  }
}

TEST(CommunicationProbeTest, BandwidthsAreSizeAndLinkTrafficOverTime) {
  TrafficTime time;
  time.num_ranks = 4;
  time.size_bytes = 1000;
  time.median_ns = 1000;
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(time), 1e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(time), 1e9);
  time.traffic = Traffic::kAllReduce;
  EXPECT_DOUBLE_EQ(BusBandwidth(time), 1.5e9);
  time.traffic = Traffic::kAllGather;
  EXPECT_DOUBLE_EQ(BusBandwidth(time), 0.75e9);
}

}  // namespace
}  // namespace dpipe::bench

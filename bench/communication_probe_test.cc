#include "bench/communication_probe.h"

#include <thread>

#include "core/comm/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;

// All ranks' answers.
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

// Also with shards that are not of one size.
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

// A transport that loses something in collectives.
class Lossy : public Communicator {
 public:
  explicit Lossy(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    Tensor wrong = tensors[0].Clone();
    wrong.data<float>()[wrong.num_elements() - 1] += 1;
    return inner_->Send(to, tag, {wrong}, what);
  }
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    return inner_->PostRecv(from, tag, std::move(specs), what);
  }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    tensors[0].data<float>()[7] += 1;
    return inner_->StartAllReduceSum(group, std::move(tensors), what);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    shards[0].data<float>()[3] += 1;
    return inner_->StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    shards[0].data<float>()[3] += 1;
    return inner_->StartReduceScatterSum(group, std::move(full), std::move(shards), what);
  }
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return inner_->AllReduceSum(values, what);
  }
  void Abort(const absl::Status& status) override { inner_->Abort(status); }

 private:
  const std::unique_ptr<Communicator> inner_;
};

TEST(CommunicationProbeTest, AWrongNumberIsSeen) {
  for (Traffic traffic : AllTraffic()) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (auto& inner : CreateInProcessCommunicators(2)) {
      communicators.push_back(std::make_unique<Lossy>(std::move(inner)));
    }
    const auto times = Measure(communicators, traffic, 4096);
    ASSERT_FALSE(times[1].ok()) << TrafficName(traffic);
    EXPECT_EQ(times[1].status().code(), absl::StatusCode::kDataLoss) << times[1].status();
    EXPECT_THAT(std::string(times[1].status().message()), HasSubstr(TrafficName(traffic)));
  }
}

TEST(CommunicationProbeTest, BandwidthsAreSizeOverTimeAndWhatALinkCarries) {
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

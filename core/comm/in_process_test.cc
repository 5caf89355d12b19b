#include "core/comm/in_process.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/comm/testing/conformance.h"

namespace dpipe {

namespace {

Transport InProcess(const std::string& name, const InProcessOptions& given) {
  Transport transport;
  transport.name = name;
  transport.run = [given](int size, absl::Duration deadline, const Transport::Body& body) {
    InProcessOptions options = given;
    options.deadline = deadline;
    auto communicators = CreateInProcessCommunicators(size, options);
    std::vector<absl::Status> statuses(size);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*communicators[i]); });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
  };
  return transport;
}

InProcessOptions Spinning(absl::Duration spin) {
  InProcessOptions options;
  options.spin = spin;
  options.spin_on_shared_cores = true;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest,
                         ::testing::Values(InProcess("in_process", {}),
                                           InProcess("spinning", Spinning(absl::Seconds(1))),
                                           InProcess("spinning_shortly",
                                                     Spinning(absl::Microseconds(20)))),
                         TransportName);

// Called by each rank's own thread.
class Recorder : public WaitObserver {
 public:
  struct Wait {
    Nanos begin_ns, ready_ns, end_ns;
  };
  void Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) override {
    waits_[rank.value()].push_back({begin_ns, ready_ns, end_ns});
  }
  const std::vector<Wait>& of(int rank) const { return waits_[rank]; }

 private:
  std::vector<Wait> waits_[2];
};

TEST(InProcessTest, ObserverGetsMessageArrivalTimes) {
  Recorder recorder;
  InProcessOptions options;
  options.observer = &recorder;
  const auto ranks = CreateInProcessCommunicators(2, options);
  Nanos before_send = 0, after_send = 0;
  std::thread sender([&] {
    before_send = MonotonicNow();
    EXPECT_TRUE(ranks[0]->Send(Rank(1), 7, {}, "nothing").ok());
    after_send = MonotonicNow();
  });
  const Nanos before_wait = MonotonicNow();
  EXPECT_TRUE((*ranks[1]->PostRecv(Rank(0), 7, {}, "nothing"))->Wait().ok());
  const Nanos after_wait = MonotonicNow();
  sender.join();
  ASSERT_EQ(recorder.of(1).size(), 1);
  const Recorder::Wait wait = recorder.of(1)[0];
  EXPECT_TRUE(before_wait <= wait.begin_ns && wait.end_ns <= after_wait);
  EXPECT_LE(wait.begin_ns, wait.end_ns);
  EXPECT_TRUE(before_send <= wait.ready_ns && wait.ready_ns <= after_send);
  EXPECT_TRUE(recorder.of(0).empty());
}

// A rank waits first for the last rank to arrive, then for the work.
TEST(InProcessTest, ObserverGetsCollectiveReadyTimes) {
  Recorder recorder;
  InProcessOptions options;
  options.observer = &recorder;
  const auto ranks = CreateInProcessCommunicators(2, options);
  const std::vector<Rank> group = {Rank(0), Rank(1)};
  Nanos start_ns[2] = {}, started_ns[2] = {};
  const auto run = [&](int rank) {
    const Tensor tensor = Tensor::Zeros(Device::Cpu(), {1000}, DType::kF32);
    start_ns[rank] = MonotonicNow();
    auto sum = ranks[rank]->StartAllReduceSum(group, {tensor}, "gradients");
    started_ns[rank] = MonotonicNow();
    EXPECT_TRUE(sum.ok() && (*sum)->Wait().ok());
    EXPECT_LE((*sum)->end_ns(), MonotonicNow());
  };
  std::thread other([&] { run(0); });
  run(1);
  other.join();
  for (int rank : {0, 1}) {
    ASSERT_EQ(recorder.of(rank).size(), 2);
    const Recorder::Wait come = recorder.of(rank)[0], work = recorder.of(rank)[1];
    EXPECT_LE(std::max(start_ns[0], start_ns[1]), come.ready_ns);
    EXPECT_LE(come.ready_ns, std::max(started_ns[0], started_ns[1]));
    EXPECT_LE(come.end_ns, work.begin_ns);
    EXPECT_LE(come.ready_ns, work.ready_ns);
    EXPECT_LE(work.begin_ns, work.end_ns);
  }
}

std::atomic<int> num_yields = 0;

// Another program uses the core at every yield, for longer than an uncontended yield takes.
TEST(InProcessTest, SpinningStopsWhenAnotherProgramUsesTheCore) {
  InProcessOptions options;
  options.spin = absl::Hours(1);
  options.spin_on_shared_cores = true;
  options.deadline = absl::Milliseconds(100);  // applies to sleeping: spinning does not count
  options.yield = [] {
    DPIPE_CHECK_EQ(++num_yields, 1) << "must stop after one yield";
    absl::SleepFor(absl::Milliseconds(2));
  };
  const auto ranks = CreateInProcessCommunicators(2, options);
  const auto received = (*ranks[1]->PostRecv(Rank(0), 7, {}, "nothing"))->Wait();
  EXPECT_EQ(received.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(num_yields, 1);
}

// A rank that is late with waiting finds its collective done by the other.
TEST(InProcessTest, WaitingRankDoesAllTheWork) {
  const auto ranks = CreateInProcessCommunicators(2);
  const std::vector<Rank> group = {Rank(0), Rank(1)};
  std::vector<Tensor> tensors;
  for (int rank : {0, 1}) {
    tensors.push_back(
        Tensor::FromHost<float>(Device::Cpu(), {2}, std::vector<float>{1.0f + rank, 0.5f}));
  }
  auto first = ranks[0]->StartAllReduceSum(group, {tensors[0]}, "gradients");
  auto second = ranks[1]->StartAllReduceSum(group, {tensors[1]}, "gradients");
  EXPECT_TRUE((*first)->Wait().ok());
  for (const Tensor& tensor : tensors) EXPECT_EQ(tensor.data<float>()[0], 3.0f);
  const Nanos end_ns = (*first)->end_ns();
  EXPECT_TRUE((*second)->Wait().ok());
  EXPECT_EQ((*second)->end_ns(), end_ns);
}

}  // namespace

}  // namespace dpipe

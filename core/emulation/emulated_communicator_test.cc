#include "core/emulation/emulated_communicator.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/shard.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns a cluster of one node. A byte takes 1 ns, and a message 100 ns more.
CostModel OneNode(int num_devices) {
  ClusterSpec cluster;
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(num_devices);
  cluster.mutable_intra_node()->set_latency_ns(100);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  auto cost = CostModel::Create(UniformProfile(), cluster);
  DPIPE_CHECK(cost.ok()) << cost.status();
  return *std::move(cost);
}

class EmulatedCommunicatorTest : public ::testing::Test {
 protected:
  explicit EmulatedCommunicatorTest(int num_ranks = 3)
      : num_ranks_(num_ranks),
        cost_(OneNode(num_ranks)),
        clock_(num_ranks, {}),
        wires_(cost_, &clock_) {
    for (int r = 0; r < num_ranks; ++r) {
      communicators_.push_back(CreateEmulatedCommunicator(&wires_, r));
      group_.push_back(Rank(r));
    }
  }

  // Runs body(rank) on one thread per rank; an error ends the others.
  std::vector<absl::Status> Run(const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(num_ranks_);
    std::vector<std::thread> threads;
    clock_.StartRun();
    for (int r = 0; r < num_ranks_; ++r) {
      threads.emplace_back([&, r] {
        clock_.Enter(r);
        statuses[r] = body(r);
        if (!statuses[r].ok()) communicators_[r]->Abort(statuses[r]);
        clock_.Leave(r);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  static Tensor Numbers(int64_t count, float value) {
    Tensor tensor = Tensor::Empty(Device::Cpu(), {count}, DType::kF32);
    for (float& x : tensor.span<float>()) x = value;
    return tensor;
  }

  const int num_ranks_;
  const CostModel cost_;
  VirtualClock clock_;
  EmulatedWires wires_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Rank> group_;
};

TEST_F(EmulatedCommunicatorTest, AMessageArrivesWhenTheNetworkIsDoneWithIt) {
  std::vector<Nanos> ends(num_ranks_);
  const auto statuses = Run([&](int rank) -> absl::Status {
    if (rank == 0) {
      clock_.SleepUntil(0, 1000);
      return communicators_[0]->Send(Rank(1), 7, {Numbers(25, 3.0f)}, "a test");
    }
    if (rank == 2) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(
        auto message,
        communicators_[1]->PostRecv(Rank(0), 7, {TensorSpec{{25}, DType::kF32}}, "a test"));
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, message->Wait());
    EXPECT_EQ(tensors[0].data<float>()[24], 3.0f);
    ends[1] = clock_.Now(1);
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ends[1], 1000 + 100 + 100);
}

// Also while a collective of the same rank is in flight that ends later.
TEST_F(EmulatedCommunicatorTest, WaitEndsWithItsMessage) {
  Nanos message_end = 0;
  const auto statuses = Run([&](int rank) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(auto sum, communicators_[rank]->StartAllReduceSum(
                                         group_, {Numbers(100000, 1.0f)}, "a sum"));
    if (rank == 0) {
      clock_.SleepUntil(0, 500);
      DPIPE_RETURN_IF_ERROR(communicators_[0]->Send(Rank(1), 1, {Numbers(1, 1.0f)}, "a message"));
    } else if (rank == 1) {
      DPIPE_ASSIGN_OR_RETURN(
          auto message,
          communicators_[1]->PostRecv(Rank(0), 1, {TensorSpec{{1}, DType::kF32}}, "a message"));
      DPIPE_RETURN_IF_ERROR(message->Wait().status());
      message_end = clock_.Now(1);
    }
    return sum->Wait();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(message_end, 500 + 104);
  EXPECT_EQ(clock_.Now(1), cost_.AllReduce({0, 1, 2}, 400000));
}

TEST_F(EmulatedCommunicatorTest, CollectivesOverlapWithComputation) {
  std::vector<Tensor> sums;
  for (int r = 0; r < num_ranks_; ++r) sums.push_back(Numbers(8, static_cast<float>(r + 1)));
  const Nanos length = cost_.AllReduce({0, 1, 2}, 32);
  std::vector<Nanos> started(num_ranks_), ended(num_ranks_);
  const auto statuses = Run([&](int rank) -> absl::Status {
    clock_.SleepUntil(rank, 100 * rank);
    DPIPE_ASSIGN_OR_RETURN(auto pending,
                           communicators_[rank]->StartAllReduceSum(group_, {sums[rank]}, "a sum"));
    started[rank] = clock_.Now(rank);
    if (rank == 0) clock_.SleepUntil(0, 1000000);
    DPIPE_RETURN_IF_ERROR(pending->Wait());
    EXPECT_EQ(pending->end_ns(), 200 + length);
    ended[rank] = clock_.Now(rank);
    return absl::OkStatus();
  });
  for (int r = 0; r < num_ranks_; ++r) {
    EXPECT_TRUE(statuses[r].ok()) << statuses[r];
    EXPECT_EQ(started[r], 100 * r);
    EXPECT_EQ(ended[r], r == 0 ? 1000000 : 200 + length);
    for (float x : sums[r].span<float>()) EXPECT_EQ(x, 6.0f);
  }
}

TEST_F(EmulatedCommunicatorTest, ShardsAreReducedAndGathered) {
  std::vector<Tensor> whole, shards, gathered;
  for (int r = 0; r < num_ranks_; ++r) {
    whole.push_back(Numbers(7, static_cast<float>(r)));
    shards.push_back(Numbers(Shard{r, num_ranks_}.Size(7), 10.0f));
    gathered.push_back(Numbers(7, 0.0f));
  }
  const auto statuses = Run([&](int rank) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(communicators_[rank]->ReduceScatterSum(
        group_, {whole[rank]}, absl::MakeSpan(&shards[rank], 1), "shards"));
    return communicators_[rank]->AllGather(group_, {shards[rank]},
                                           absl::MakeSpan(&gathered[rank], 1), "the whole");
  });
  for (int r = 0; r < num_ranks_; ++r) {
    EXPECT_TRUE(statuses[r].ok()) << statuses[r];
    for (float x : gathered[r].span<float>()) EXPECT_EQ(x, 13.0f);
  }
}

TEST_F(EmulatedCommunicatorTest, RanksThatWaitForOneAnotherAreNamed) {
  const auto statuses = Run([&](int rank) -> absl::Status {
    if (rank == 2) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(auto message, communicators_[rank]->PostRecv(Rank(1 - rank), 1, {},
                                                                        "activation of nothing"));
    return message->Wait().status();
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(statuses[0].message()),
            "deadlock: every rank waits for another: rank 0 for activation of nothing from rank 1; "
            "rank 1 "
            "for activation of nothing from rank 0");
  EXPECT_EQ(statuses[1].message(), statuses[0].message());
}

TEST_F(EmulatedCommunicatorTest, OneRanksErrorEndsAllWaits) {
  const auto statuses = Run([&](int rank) -> absl::Status {
    if (rank == 1) {
      clock_.SleepUntil(1, 50);
      return absl::DataLossError("rank 1 has had enough");
    }
    double value = 1;
    return communicators_[rank]->AllReduceSum(absl::MakeSpan(&value, 1), "a norm");
  });
  for (int r : {0, 2}) EXPECT_EQ(statuses[r].message(), "rank 1 has had enough");
}

}  // namespace
}  // namespace dpipe

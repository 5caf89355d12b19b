#include "core/comm/in_process.h"

#include <functional>
#include <thread>

#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

Tensor Vector(std::vector<float> values) {
  return Tensor::FromHost<float>(Device::Cpu(), {static_cast<int64_t>(values.size())},
                                 absl::MakeConstSpan(values));
}

// Runs `body` on a thread for every rank and returns their statuses.
std::vector<absl::Status> RunRanks(int size, const InProcessOptions& options,
                                   const std::function<absl::Status(Communicator&)>& body) {
  auto communicators = CreateInProcessCommunicators(size, options);
  std::vector<absl::Status> statuses(size);
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] { statuses[i] = body(*communicators[i]); });
  }
  for (auto& thread : threads) thread.join();
  return statuses;
}

TEST(InProcessTest, MessagesOfOneTagKeepTheirOrder) {
  const auto statuses = RunRanks(2, {}, [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) {
      for (float i = 0; i < 50; ++i) {
        DPIPE_RETURN_IF_ERROR(comm.Send(Rank(1), 7, {Vector({i})}, "number"));
        DPIPE_RETURN_IF_ERROR(comm.Send(Rank(1), 8, {Vector({-i, i})}, "other"));
      }
      return absl::OkStatus();
    }
    for (float i = 0; i < 50; ++i) {
      DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 7, {{{1}, DType::kF32}}, "number"));
      DPIPE_ASSIGN_OR_RETURN(auto tensors, recv->Wait());
      EXPECT_EQ(tensors[0].data<float>()[0], i);
    }
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 8, {{{2}, DType::kF32}}, "other"));
    DPIPE_ASSIGN_OR_RETURN(auto tensors, recv->Wait());
    EXPECT_EQ(tensors[0].data<float>()[0], 0);
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(InProcessTest, AllReduceAddsInRankOrderOnEveryRank) {
  constexpr int kSize = 3;
  constexpr int kCount = 1001;  // does not divide by the number of ranks
  auto value = [](int rank, int i) {
    return RandomStream(1, i, rank, RandomPurpose::kTest).NextNormal();
  };
  const auto statuses = RunRanks(kSize, {}, [&](Communicator& comm) -> absl::Status {
    const int rank = comm.rank().value();
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> mine(kCount);
      for (int i = 0; i < kCount; ++i) mine[i] = value(rank, i);
      std::vector<Tensor> tensors = {Vector(mine)};
      const std::vector<Rank> group = {Rank(0), Rank(1), Rank(2)};
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "gradients"));
      for (int i = 0; i < kCount; ++i) {
        const float expected = (value(0, i) + value(1, i)) + value(2, i);
        EXPECT_EQ(tensors[0].data<float>()[i], expected) << "rank " << rank << " element " << i;
      }
      double sums[2] = {rank + 1.0, 0.5};
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(absl::MakeSpan(sums), "norm"));
      EXPECT_EQ(sums[0], 6.0);
      EXPECT_EQ(sums[1], 1.5);
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(InProcessTest, SubgroupsDoNotDisturbEachOther) {
  const auto statuses = RunRanks(4, {}, [](Communicator& comm) -> absl::Status {
    const int pair = comm.rank().value() / 2;
    const std::vector<Rank> group = {Rank(2 * pair), Rank(2 * pair + 1)};
    std::vector<Tensor> tensors = {Vector({static_cast<float>(comm.rank().value())})};
    DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "pair"));
    EXPECT_EQ(tensors[0].data<float>()[0], pair == 0 ? 1 : 5);
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(InProcessTest, DeadlineNamesWhoWaitedForWhat) {
  InProcessOptions options;
  options.deadline = absl::Milliseconds(50);
  const auto statuses = RunRanks(2, options, [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) return absl::OkStatus();  // never sends
    DPIPE_ASSIGN_OR_RETURN(
        auto recv, comm.PostRecv(Rank(0), 1, {{{1}, DType::kF32}}, "activation of micro-batch 3"));
    return recv->Wait().status();
  });
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("rank 1 waited 50ms for activation of micro-batch 3 from rank 0"));
}

TEST(InProcessTest, AbortEndsEveryWait) {
  const auto statuses = RunRanks(3, {}, [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) {
      comm.Abort(absl::DataLossError("rank 0: image broken.png cannot be read"));
      return absl::OkStatus();
    }
    if (comm.rank() == Rank(1)) {
      DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 1, {{{1}, DType::kF32}}, "x"));
      return recv->Wait().status();
    }
    double value = 1;
    return comm.AllReduceSum(absl::MakeSpan(&value, 1), "norm");
  });
  for (int rank : {1, 2}) {
    EXPECT_EQ(statuses[rank].code(), absl::StatusCode::kDataLoss) << statuses[rank];
    EXPECT_THAT(std::string(statuses[rank].message()), HasSubstr("broken.png"));
  }
}

TEST(InProcessTest, WrongShapeIsNamedWithBothValues) {
  const auto statuses = RunRanks(2, {}, [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) return comm.Send(Rank(1), 1, {Vector({1, 2})}, "x");
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 1, {{{3}, DType::kF32}}, "x"));
    return recv->Wait().status();
  });
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("should be (fp32[3]) but is (fp32[2])"));
}

TEST(InProcessTest, UnknownPeerIsRefused) {
  auto communicators = CreateInProcessCommunicators(2);
  EXPECT_EQ(communicators[0]->Send(Rank(2), 1, {}, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(communicators[0]->Send(Rank(0), 1, {}, "x").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dpipe

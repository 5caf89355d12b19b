#include "core/comm/testing/conformance.h"

#include <vector>

#include "core/base/philox.h"
#include "core/base/shard.h"
#include "core/base/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

Tensor Vector(std::vector<float> values) {
  return Tensor::FromHost<float>(Device::Cpu(), {static_cast<int64_t>(values.size())},
                                 absl::MakeConstSpan(values));
}

TEST_P(ConformanceTest, MessagesOfOneTagKeepTheirOrder) {
  if (GetParam().in_device_order) GTEST_SKIP() << GetParam().name << " has neither tags nor shapes";
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
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
    for (float i = 0; i < 50; ++i) {
      DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 8, {{{2}, DType::kF32}}, "other"));
      DPIPE_ASSIGN_OR_RETURN(auto tensors, recv->Wait());
      EXPECT_EQ(tensors[0].data<float>()[0], -i);
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, AllReduceAddsInRankOrderOnEveryRank) {
  constexpr int kSize = 3;
  constexpr int kCount = 1001;  // not divisible by the number of ranks
  auto value = [](int rank, int i) {
    return RandomStream(1, i, rank, RandomPurpose::kTest).NextNormal();
  };
  const auto statuses = RunRanks(kSize, [&](Communicator& comm) -> absl::Status {
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

// 10 elements and 2 elements over 3 ranks: uneven shards, and an empty one.
TEST_P(ConformanceTest, AllGatherJoinsShards) {
  const auto statuses = RunRanks(4, [](Communicator& comm) -> absl::Status {
    const std::vector<Rank> group = {Rank(0), Rank(2), Rank(3)};
    const int rank = comm.rank().value();
    if (rank == 1) return absl::OkStatus();
    const Shard own{rank == 0 ? 0 : rank - 1, 3};
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<Tensor> shards, full;
      for (int n : {10, 2}) {
        std::vector<float> mine;
        for (int64_t i = own.Begin(n); i < own.End(n); ++i) mine.push_back(100 * repeat + n + i);
        shards.push_back(Vector(mine));
        full.push_back(Tensor::Zeros(Device::Cpu(), {n / 2, 2}, DType::kF32));
      }
      DPIPE_RETURN_IF_ERROR(comm.AllGather(group, shards, absl::MakeSpan(full), "weights"));
      for (const Tensor& tensor : full) {
        const int n = static_cast<int>(tensor.num_elements());
        for (int i = 0; i < n; ++i) {
          EXPECT_EQ(tensor.data<float>()[i], 100 * repeat + n + i) << "rank " << rank;
        }
      }
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, ReduceScatterAddsTheAllReducesShard) {
  constexpr int kSize = 3, kCount = 1001;
  const auto statuses = RunRanks(kSize, [&](Communicator& comm) -> absl::Status {
    const std::vector<Rank> group = {Rank(0), Rank(1), Rank(2)};
    const Shard own{comm.rank().value(), kSize};
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> mine(kCount);
      for (int i = 0; i < kCount; ++i) {
        mine[i] = RandomStream(repeat, i, own.index, RandomPurpose::kTest).NextNormal();
      }
      std::vector<Tensor> full = {Vector(mine)}, sum = {Vector(mine)};
      std::vector<Tensor> shards = {Vector(std::vector<float>(own.Size(kCount), 0.5f))};
      DPIPE_RETURN_IF_ERROR(comm.ReduceScatterSum(group, full, absl::MakeSpan(shards), "grads"));
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(sum), "grads"));
      for (int i = 0; i < own.Size(kCount); ++i) {
        EXPECT_EQ(shards[0].data<float>()[i], 0.5f + sum[0].data<float>()[own.Begin(kCount) + i]);
      }
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ConformanceTest, SubgroupsDoNotDisturbEachOther) {
  const auto statuses = RunRanks(4, [](Communicator& comm) -> absl::Status {
    const int pair = comm.rank().value() / 2;
    const std::vector<Rank> group = {Rank(2 * pair), Rank(2 * pair + 1)};
    std::vector<Tensor> tensors = {Vector({static_cast<float>(comm.rank().value())})};
    DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "pair"));
    EXPECT_EQ(tensors[0].data<float>()[0], pair == 0 ? 1 : 5);
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Two are in flight while the rank continues, sums doubles over all ranks, and waits for the second
// first. A message that is sent only after the start shows that starting does not block.
TEST_P(ConformanceTest, CollectivesOverlapWithOtherWork) {
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
    const std::vector<Rank> group = {Rank(0), Rank(1)};
    const int rank = comm.rank().value();
    const Rank peer(1 - rank);
    // Ranks that connect at their first communication do so here.
    DPIPE_ASSIGN_OR_RETURN(auto first, comm.StartAllReduceSum(group, {Vector({0, 0})}, "first"));
    DPIPE_RETURN_IF_ERROR(first->Wait());
    for (int repeat = 0; repeat < 20; ++repeat) {
      const std::vector<Tensor> sum = {Vector({rank + 1.0f, 10.0f * repeat})};
      const std::vector<Tensor> full = {Vector({0, 0})};
      if (rank == 1) {
        DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(peer, 7, {{{1}, DType::kF32}}, "go"));
        DPIPE_RETURN_IF_ERROR(recv->Wait().status());
      }
      const Nanos start = MonotonicNow();
      DPIPE_ASSIGN_OR_RETURN(auto reduction, comm.StartAllReduceSum(group, sum, "gradients"));
      DPIPE_ASSIGN_OR_RETURN(auto gathering,
                             comm.StartAllGather(group, {Vector({rank + 0.5f})}, full, "weights"));
      if (rank == 0) DPIPE_RETURN_IF_ERROR(comm.Send(peer, 7, {Vector({1})}, "go"));
      double one = 1;
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(absl::MakeSpan(&one, 1), "norm"));
      EXPECT_EQ(one, 2.0);
      DPIPE_RETURN_IF_ERROR(gathering->Wait());
      EXPECT_EQ(full[0].data<float>()[0], 0.5f);
      EXPECT_EQ(full[0].data<float>()[1], 1.5f);
      DPIPE_RETURN_IF_ERROR(reduction->Wait());
      EXPECT_EQ(sum[0].data<float>()[0], 3.0f);
      EXPECT_EQ(sum[0].data<float>()[1], 20.0f * repeat);
      EXPECT_LE(start, reduction->end_ns());
      if (!GetParam().in_device_order) {
        EXPECT_LE(reduction->end_ns(), gathering->end_ns());
      }
      EXPECT_LE(gathering->end_ns(), MonotonicNow());
      if (const auto end = reduction->end(); end != nullptr) {
        EXPECT_TRUE(end->done());
        EXPECT_LE(start, end->time_ns());
      }
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// A rank that fails drops the collectives that it has started, and the others get its error.
TEST_P(ConformanceTest, AbortEndsCollectivesThatAreUnderWay) {
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
    const std::vector<Rank> group = {Rank(0), Rank(1)};
    DPIPE_ASSIGN_OR_RETURN(auto first, comm.StartAllReduceSum(group, {Vector({1})}, "first"));
    if (comm.rank() == Rank(0)) {
      comm.Abort(absl::DataLossError("rank 0: image broken.png cannot be read"));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(auto second, comm.StartAllReduceSum(group, {Vector({1})}, "second"));
    return second->Wait();
  });
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kDataLoss) << statuses[1];
}

TEST_P(ConformanceTest, DeadlineErrorNamesWaiterAndMessage) {
  const auto body = [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) return absl::OkStatus();  // never sends
    DPIPE_ASSIGN_OR_RETURN(
        auto recv, comm.PostRecv(Rank(0), 1, {{{1}, DType::kF32}}, "activation of micro-batch 3"));
    return recv->Wait().status();
  };
  const auto statuses = RunRanks(2, body, absl::Milliseconds(1500));
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("rank 1 waited 1.5s for activation of micro-batch 3 from rank 0"));
}

TEST_P(ConformanceTest, AbortEndsEveryWait) {
  const auto statuses = RunRanks(3, [](Communicator& comm) -> absl::Status {
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

TEST_P(ConformanceTest, WrongShapeIsNamedWithBothValues) {
  if (GetParam().in_device_order) GTEST_SKIP() << GetParam().name << " has neither tags nor shapes";
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
    if (comm.rank() == Rank(0)) return comm.Send(Rank(1), 1, {Vector({1, 2})}, "x");
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(0), 1, {{{3}, DType::kF32}}, "x"));
    return recv->Wait().status();
  });
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("should be (fp32[3]) but is (fp32[2])"));
}

TEST_P(ConformanceTest, UnknownPeerIsRefused) {
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
    for (Rank peer : {Rank(2), comm.rank()}) {
      EXPECT_EQ(comm.Send(peer, 1, {}, "x").code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(comm.PostRecv(peer, 1, {}, "x").status().code(),
                absl::StatusCode::kInvalidArgument);
    }
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Sends an empty message, an empty tensor, two element types, and more than fits in any buffer on
// the way. All of it is sent before its receive is posted, in both directions at once, in one run.
TEST_P(ConformanceTest, MessagesOfAnySizeAndTypeArrive) {
  constexpr int64_t kLarge = 3 << 20;
  const auto statuses = RunRanks(2, [](Communicator& comm) -> absl::Status {
    const Rank peer(1 - comm.rank().value());
    const Tensor empty = Tensor::Zeros(Device::Cpu(), {0, 3}, DType::kF32);
    const Tensor halves = Vector({1, 2.5f, -3}).To(DType::kBf16);
    std::vector<float> values(kLarge);
    for (int64_t i = 0; i < kLarge; ++i) values[i] = static_cast<float>(i % 1000003);
    DPIPE_RETURN_IF_ERROR(comm.ExpectMessages({peer}, {peer}));
    comm.BeginMessages();
    DPIPE_RETURN_IF_ERROR(comm.Send(peer, 1, {}, "nothing"));
    DPIPE_RETURN_IF_ERROR(comm.Send(peer, 2, {empty, halves, Vector(values)}, "much"));
    DPIPE_ASSIGN_OR_RETURN(
        auto much,
        comm.PostRecv(peer, 2,
                      {{{0, 3}, DType::kF32}, {{3}, DType::kBf16}, {{kLarge}, DType::kF32}},
                      "much"));
    DPIPE_ASSIGN_OR_RETURN(auto nothing, comm.PostRecv(peer, 1, {}, "nothing"));
    DPIPE_RETURN_IF_ERROR(comm.EndMessages());
    DPIPE_ASSIGN_OR_RETURN(auto tensors, much->Wait());
    EXPECT_EQ(tensors[0].num_elements(), 0);
    EXPECT_EQ(tensors[1].To(DType::kF32).data<float>()[1], 2.5f);
    EXPECT_EQ(std::vector<float>(tensors[2].data<float>(), tensors[2].data<float>() + kLarge),
              values);
    DPIPE_ASSIGN_OR_RETURN(tensors, nothing->Wait());
    EXPECT_TRUE(tensors.empty());
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Many tensors of all sizes, 5 million elements in total: some are summed in pieces, all in rank
// order.
TEST_P(ConformanceTest, ManyTensorsAreSummedInRankOrder) {
  constexpr int kSize = 3;
  const std::vector<int64_t> sizes = {1, 0, 4500000, 2, 1000, 3, 700000, 5};
  const auto value = [](int rank, int64_t i) {
    return 1.0f / static_cast<float>(1 + (i * 7 + rank * 13) % 1009);
  };
  const auto statuses = RunRanks(kSize, [&](Communicator& comm) -> absl::Status {
    const std::vector<Rank> group = {Rank(0), Rank(1), Rank(2)};
    std::vector<Tensor> tensors;
    for (int64_t size : sizes) {
      std::vector<float> mine(size);
      for (int64_t i = 0; i < size; ++i) mine[i] = value(comm.rank().value(), i);
      tensors.push_back(Vector(mine));
    }
    DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "gradients"));
    int64_t wrong = 0;
    for (const Tensor& tensor : tensors) {
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        wrong += tensor.data<float>()[i] != (value(0, i) + value(1, i)) + value(2, i);
      }
    }
    EXPECT_EQ(wrong, 0);
    return absl::OkStatus();
  });
  for (const auto& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace dpipe

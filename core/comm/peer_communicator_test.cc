#include "core/comm/peer_communicator.h"

#include <functional>
#include <thread>
#include <vector>

#include "core/base/philox.h"
#include "core/base/shard.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Body = std::function<absl::Status(Communicator&, const std::shared_ptr<Device>&)>;

// Runs `body` on one thread for each of `size` virtual GPUs. Nothing may touch freed memory.
std::vector<absl::Status> RunRanks(int size, uint64_t seed, const Body& body,
                                   const InProcessOptions& options = {}) {
  cuda::FakeDriver driver(seed);
  std::vector<absl::Status> statuses(size);
  {
    const auto devices = *cuda::CreateVirtualCudaDevices(&driver, size);
    const auto communicators = CreatePeerCommunicators(devices, options);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*communicators[i], devices[i]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_THAT(driver.violations(), IsEmpty()) << "seed " << seed;
  return statuses;
}

Tensor Vector(const std::shared_ptr<Device>& device, const std::vector<float>& values) {
  return Tensor::FromHost<float>(device, {static_cast<int64_t>(values.size())},
                                 absl::MakeConstSpan(values));
}

TEST(PeerCommunicatorTest, ReceiverSeesEarlierWorkOfTheSender) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto statuses =
        RunRanks(2, seed, [](Communicator& comm, const auto& device) -> absl::Status {
          Tensor total = Vector(device, {0, 0});
          for (int i = 1; i <= 8; ++i) {
            if (comm.rank() == Rank(0)) {
              Tensor message = Vector(device, {static_cast<float>(i), 1});
              device->Accumulate(message.raw_data(), message.raw_data(), 2);
              DPIPE_RETURN_IF_ERROR(comm.Send(Rank(1), 3, {message}, "activation"));
            } else {
              DPIPE_ASSIGN_OR_RETURN(auto recv,
                                     comm.PostRecv(Rank(0), 3, {{{2}, DType::kF32}}, "activation"));
              DPIPE_ASSIGN_OR_RETURN(const auto tensors, recv->Wait());
              device->Accumulate(total.raw_data(), tensors[0].raw_data(), 2);
            }
          }
          if (comm.rank() == Rank(1)) {
            EXPECT_EQ(HostValues(total), (std::vector<float>{72, 16}));
          }
          return device->Synchronize();
        });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(PeerCommunicatorTest, CollectivesAreInRankOrderAtAnyStreamSpeed) {
  constexpr int kSize = 3, kCount = 17;
  const auto value = [](int rank, int i) {
    return RandomStream(1, i, rank, RandomPurpose::kTest).NextNormal();
  };
  const std::vector<Rank> group = {Rank(0), Rank(1), Rank(2)};
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto statuses =
        RunRanks(kSize, seed, [&](Communicator& comm, const auto& device) -> absl::Status {
          const int rank = comm.rank().value();
          std::vector<float> mine(kCount), expected(kCount);
          for (int i = 0; i < kCount; ++i) {
            mine[i] = value(rank, i);
            expected[i] = (value(0, i) + value(1, i)) + value(2, i);
          }
          const Shard own{rank, kSize};
          const int64_t begin = own.Begin(kCount), end = own.End(kCount);
          const std::vector<float> own_sum(expected.begin() + begin, expected.begin() + end);
          for (int repeat = 0; repeat < 2; ++repeat) {
            // One tensor has fewer elements than there are ranks.
            std::vector<Tensor> tensors = {Vector(device, mine), Vector(device, {mine[0]})};
            DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "gradients"));
            std::vector<Tensor> full = {Vector(device, mine)};
            std::vector<Tensor> shards = {Vector(device, std::vector<float>(end - begin))};
            DPIPE_RETURN_IF_ERROR(
                comm.ReduceScatterSum(group, full, absl::MakeSpan(shards), "gradients"));
            full[0].FillZero();  // right away: all ranks have read it
            DPIPE_RETURN_IF_ERROR(comm.AllGather(group, shards, absl::MakeSpan(full), "weights"));
            const Tensor gathered = full[0].Clone();
            const Tensor shard = shards[0].Clone();
            shards[0].FillZero();
            EXPECT_EQ(HostValues(tensors[0]), expected);
            EXPECT_EQ(HostValues(tensors[1]), (std::vector<float>{expected[0]}));
            EXPECT_EQ(HostValues(shard), own_sum);
            EXPECT_EQ(HostValues(gathered), expected);
          }
          return device->Synchronize();
        });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

// Rank 1 joins the collective only after a message that rank 0 sends after starting it.
TEST(PeerCommunicatorTest, StartingACollectiveDoesNotBlock) {
  const std::vector<Rank> group = {Rank(0), Rank(1)};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto statuses =
        RunRanks(2, seed, [&](Communicator& comm, const auto& device) -> absl::Status {
          const int rank = comm.rank().value();
          if (rank == 1) {
            DPIPE_ASSIGN_OR_RETURN(auto recv,
                                   comm.PostRecv(Rank(0), 7, {{{1}, DType::kF32}}, "go"));
            DPIPE_RETURN_IF_ERROR(recv->Wait().status());
          }
          const Tensor sum = Vector(device, {rank + 1.0f, 5});
          DPIPE_ASSIGN_OR_RETURN(auto pending, comm.StartAllReduceSum(group, {sum}, "gradients"));
          if (rank == 0) {
            DPIPE_RETURN_IF_ERROR(comm.Send(Rank(1), 7, {Vector(device, {0})}, "go"));
          }
          DPIPE_RETURN_IF_ERROR(pending->Wait());
          EXPECT_EQ(HostValues(sum), (std::vector<float>{3, 10}));
          return device->Synchronize();
        });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

// A layer has many small tensors. Any work that the host does per tensor, on any rank, delays all
// ranks.
TEST(PeerCommunicatorTest, CollectivesOfManyTensorsTakeFewCalls) {
  constexpr int kTensors = 100;
  const std::vector<Rank> group = {Rank(0), Rank(1)};
  cuda::FakeDriver driver;
  const auto devices = *cuda::CreateVirtualCudaDevices(&driver, 2);
  const auto communicators = CreatePeerCommunicators(devices);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<Tensor> full, shards;
      for (int i = 0; i < kTensors; ++i) {
        full.push_back(Tensor::Zeros(devices[rank], {4}, DType::kF32));
        shards.push_back(Tensor::Zeros(devices[rank], {2}, DType::kF32));
      }
      EXPECT_TRUE(communicators[rank]
                      ->ReduceScatterSum(group, full, absl::MakeSpan(shards), "gradients")
                      .ok());
      EXPECT_TRUE(
          communicators[rank]->AllGather(group, shards, absl::MakeSpan(full), "parameters").ok());
      full.clear();
      shards.clear();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* call : {"CreateEvent", "Record", "Wait", "Done"}) {
    EXPECT_LT(driver.num_calls(call), kTensors) << call;
  }
  EXPECT_LE(driver.num_calls("Allocate"), 2 * 2 * kTensors);  // the tensors themselves
  EXPECT_EQ(driver.num_calls("Copy"), 0);
  // On each rank, the terms of 100 sums of two, and 200 copies.
  EXPECT_LE(driver.num_calls("AddUp"), 2 * (2 + 3));
}

TEST(PeerCommunicatorTest, ErrorNamesMissingRank) {
  InProcessOptions options;
  options.deadline = absl::Milliseconds(50);
  const auto statuses = RunRanks(
      2, 1,
      [](Communicator& comm, const auto& device) -> absl::Status {
        if (comm.rank() == Rank(1)) return absl::OkStatus();
        std::vector<Tensor> tensors = {Vector(device, {1, 2})};
        return comm.AllReduceSum(std::vector<Rank>{Rank(0), Rank(1)}, absl::MakeSpan(tensors),
                                 "gradients of stage 1");
      },
      options);
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("for gradients of stage 1 from rank 1"));
}

}  // namespace
}  // namespace dpipe

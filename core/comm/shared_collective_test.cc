#include "core/comm/shared_collective.h"

#include <atomic>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

using Kind = SharedCollective::Kind;

constexpr int kMembers = 3;
// Several chunks, and shards that do not divide evenly.
constexpr int64_t kSizes[] = {100003, 1, 5, 16384};

// Returns element k of tensor i of member m. A sum of these depends on the order of addition.
float Value(int m, size_t i, int64_t k) { return 0.1f * (m + 1) + 1e3f * i + 1e-3f * (k % 977); }

Tensor Whole(int m, size_t i) {
  std::vector<float> values(kSizes[i]);
  for (int64_t k = 0; k < kSizes[i]; ++k) values[k] = Value(m, i, k);
  return Tensor::FromHost<float>(Device::Cpu(), {kSizes[i]}, values);
}

Tensor ShardOf(int m, const Tensor& whole) {
  const Shard shard{m, kMembers};
  const int64_t n = whole.num_elements();
  const float* const data = whole.data<float>();
  return Tensor::FromHost<float>(Device::Cpu(), {shard.Size(n)},
                                 std::vector<float>(data + shard.Begin(n), data + shard.End(n)));
}

float SumInOrder(size_t i, int64_t k) {
  float sum = Value(0, i, k);
  for (int m = 1; m < kMembers; ++m) sum += Value(m, i, k);
  return sum;
}

// Members join with the tensors from `contribution_of`; then `threads` threads do the work.
std::vector<SharedCollective::Contribution> RunOn(
    Kind kind, int threads, SharedCollective::Contribution (*contribution_of)(int member)) {
  SharedCollective collective(kind, kMembers);
  std::vector<SharedCollective::Contribution> contributions;
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_FALSE(collective.complete() || collective.HasWork() || collective.RunNextChunk());
    contributions.push_back(contribution_of(m));
    EXPECT_EQ(collective.Join(m, contributions.back(), /*now_ns=*/10 - m), m == kMembers - 1);
  }
  EXPECT_EQ(collective.complete_ns(), 10);
  std::vector<std::thread> workers;
  std::atomic<int> num_ends{0};
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      while (collective.HasWork()) num_ends += collective.RunNextChunk();
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(num_ends, 1);
  EXPECT_TRUE(collective.done());
  EXPECT_LE(collective.complete_ns(), collective.done_ns());
  return contributions;
}

class SharedWorkTest : public ::testing::TestWithParam<int> {};

TEST_P(SharedWorkTest, AllReduceAddsInMemberOrder) {
  const auto contributions = RunOn(Kind::kAllReduceSum, GetParam(), [](int m) {
    SharedCollective::Contribution own;
    for (size_t i = 0; i < std::size(kSizes); ++i) own.full.push_back(Whole(m, i));
    return own;
  });
  for (const auto& own : contributions) {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      for (int64_t k = 0; k < kSizes[i]; ++k) {
        ASSERT_EQ(own.full[i].data<float>()[k], SumInOrder(i, k)) << i << ", " << k;
      }
    }
  }
}

TEST_P(SharedWorkTest, AllGatherJoinsShards) {
  const auto contributions = RunOn(Kind::kAllGather, GetParam(), [](int m) {
    SharedCollective::Contribution own;
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      own.shards.push_back(ShardOf(m, Whole(0, i)));
      own.full.push_back(Tensor::Zeros(Device::Cpu(), {kSizes[i]}, DType::kF32));
    }
    return own;
  });
  for (const auto& own : contributions) {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      for (int64_t k = 0; k < kSizes[i]; ++k) {
        ASSERT_EQ(own.full[i].data<float>()[k], Value(0, i, k)) << i << ", " << k;
      }
    }
  }
}

TEST_P(SharedWorkTest, ReduceScatterAddsEachMembersShard) {
  const auto contributions = RunOn(Kind::kReduceScatterSum, GetParam(), [](int m) {
    SharedCollective::Contribution own;
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      own.full.push_back(Whole(m, i));
      own.shards.push_back(ShardOf(m, Whole(2, i)));
    }
    return own;
  });
  for (int m = 0; m < kMembers; ++m) {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const Shard shard{m, kMembers};
      for (int64_t k = shard.Begin(kSizes[i]); k < shard.End(kSizes[i]); ++k) {
        const float was = Value(2, i, k);
        ASSERT_EQ(contributions[m].shards[i].data<float>()[k - shard.Begin(kSizes[i])],
                  was + SumInOrder(i, k))
            << i << ", " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SharedCollective, SharedWorkTest, ::testing::Values(1, 3));

TEST(SharedCollectiveTest, EndsWithTheLastMemberIfThereAreNoTensors) {
  SharedCollective collective(Kind::kAllGather, 2);
  EXPECT_FALSE(collective.Join(1, {}, 5));
  EXPECT_TRUE(collective.Join(0, {}, 7));
  EXPECT_TRUE(collective.done());
  EXPECT_FALSE(collective.HasWork() || collective.RunNextChunk());
}

TEST(SharedCollectiveTest, ReleasesTensorsAtTheEnd) {
  const auto device = Device::Cpu();
  SharedCollective collective(Kind::kAllReduceSum, 2);
  for (int m = 0; m < 2; ++m) {
    collective.Join(m, {{}, {Tensor::Zeros(device, {100}, DType::kF32)}}, 0);
  }
  EXPECT_GT(device->allocator().stats().allocated_bytes, 0);
  EXPECT_TRUE(collective.RunNextChunk());
  EXPECT_EQ(device->allocator().stats().allocated_bytes, 0);
}

}  // namespace
}  // namespace dpipe

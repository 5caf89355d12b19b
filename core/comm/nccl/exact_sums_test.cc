// Reductions over nodes, with sums in rank order: how tensors are divided, and the results, on fake
// GPUs whose streams run in any order that events allow.
#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/base/shard.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/nccl_communicator.h"
#include "core/comm/nccl/reduction_slices.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::IsEmpty;

class NoPeers : public NcclPeers {
 public:
  void Join(Member) override {}
  void Tell(const absl::Status&) override {}
  absl::Status Cause() override { return absl::OkStatus(); }
  void Leave() override {}
};

NodeLayout Layout(const std::vector<int>& ranks, const std::vector<int>& nodes) {
  return LayoutOf({ranks, {0, static_cast<int>(ranks.size())}}, nodes);
}

TEST(ReductionSlicesTest, GroupsOfEqualConsecutiveRanksAreDividedIntoNodes) {
  const auto expect = [](NodeLayout layout, int num_nodes, int ranks_per_node) {
    EXPECT_EQ(layout.num_nodes, num_nodes);
    EXPECT_EQ(layout.ranks_per_node, ranks_per_node);
  };
  const std::vector<int> pairs = {7, 7, 3, 3, 5, 5}, dealt = {0, 1, 0, 1, 0, 1};
  expect(Layout({0, 1, 2, 3, 4, 5}, pairs), 3, 2);
  expect(Layout({0, 1, 4, 5}, pairs), 2, 2);
  expect(Layout({2, 3}, pairs), 1, 2);
  expect(Layout({0, 1, 2, 3}, {}), 1, 4);
  expect(Layout({0, 2, 4}, pairs), 1, 3);            // one rank per node
  expect(Layout({0, 1, 2}, pairs), 1, 3);            // two and one
  expect(Layout({0, 1, 2, 4}, pairs), 1, 4);         // two, one and one: 4 ranks on 3 nodes
  expect(Layout({0, 1, 2, 3, 4, 5}, dealt), 1, 6);   // round-robin
  expect(Layout({0, 2, 4}, dealt), 1, 3);            // all on one node
  expect(Layout({0, 1, 2, 3}, {0, 0, 0, 1}), 1, 4);  // three and one
  expect(Layout({0, 1, 2, 3}, {0, 1, 1, 0}), 1, 4);  // wraps around
  expect(Layout({0, 1, 2, 3, 4, 5}, {0, 0, 0, 1, 1, 1}), 2, 3);
}

std::vector<Tensor> Sized(const std::vector<int64_t>& sizes) {
  std::vector<Tensor> tensors;
  for (int64_t n : sizes) tensors.push_back(Tensor::Zeros(Device::Cpu(), {n}, DType::kF32));
  return tensors;
}

// Every element is in the share of one slice, shares are 16-byte aligned, chunks are not too large.
TEST(ReductionSlicesTest, SlicesCoverEveryElementOnce) {
  const std::vector<Tensor> tensors = Sized({1, 0, 1000, 3, 77, 4096, 5});
  for (const NodeLayout layout : {NodeLayout{1, 3}, NodeLayout{2, 2}, NodeLayout{3, 4}}) {
    for (const bool scatters : {false, true}) {
      constexpr int64_t kBytes = 512;
      const int64_t row_bytes =
          ReductionBufferFor(layout, scatters, BytesOf(tensors), kBytes).row_bytes;
      const std::vector<Chunk> chunks = scatters ? ReduceScatterChunks(tensors, layout, kBytes)
                                                 : AllReduceChunks(tensors, layout, kBytes);
      std::vector<std::vector<int>> times;
      for (const Tensor& t : tensors) times.emplace_back(t.num_elements());
      for (const Chunk& chunk : chunks) {
        int64_t bytes = 0;
        std::vector<int64_t> rows(layout.ranks_per_node, 0);
        for (const Slice& slice : chunk) {
          ASSERT_EQ(static_cast<int>(slice.shares.size()), layout.ranks_per_node);
          for (int local = 0; local < layout.ranks_per_node; ++local) {
            const ElementRange& share = slice.shares[local];
            bytes += 4 * share.count;
            rows[local] += AlignedForReduction(4 * share.count);
            for (int64_t i = 0; i < share.count; ++i) ++times[slice.tensor][share.begin + i];
            if (!scatters) {
              EXPECT_TRUE(share.begin % 4 == 0 || share.count == 0);
              continue;
            }
            const int size = layout.num_nodes * layout.ranks_per_node;
            const Shard rank{layout.MemberAt(slice.home, local), size};
            const int64_t n = tensors[slice.tensor].num_elements();
            EXPECT_GE(share.begin, rank.Begin(n));
            EXPECT_LE(share.begin + share.count, rank.End(n));
          }
        }
        EXPECT_GT(bytes, 0);
        for (int64_t row : rows) EXPECT_LE(row, row_bytes);
        EXPECT_TRUE(chunk.size() == 1 || bytes <= kBytes) << bytes;
      }
      for (const std::vector<int>& each : times) {
        EXPECT_EQ(each, std::vector<int>(each.size(), 1));
      }
    }
  }
}

// A tensor that is too small to be divided belongs to the last rank of a node.
TEST(ReductionSlicesTest, UndividedTensorsFillTheRow) {
  const std::vector<Tensor> tensors = Sized(std::vector<int64_t>(100, 3));
  const std::vector<Chunk> chunks = AllReduceChunks(tensors, {1, 4}, 1024);
  EXPECT_EQ(ReductionBufferFor({1, 4}, false, BytesOf(tensors), 1024).row_bytes, 256 + 64);
  ASSERT_EQ(chunks.size(), 5u);
  EXPECT_EQ(chunks[0].size(), 20u);
}

TEST(ReductionSlicesTest, MoreNodesMakeSmallerChunks) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(ReductionChunkBytes(1), 32 * kMiB);
  EXPECT_EQ(ReductionChunkBytes(2), 16 * kMiB);
  EXPECT_EQ(ReductionChunkBytes(8), 4 * kMiB);
  EXPECT_EQ(ReductionChunkBytes(100), 2 * kMiB);
  for (int num_nodes = 1; num_nodes <= 64; ++num_nodes) {
    const int64_t chunk_bytes = ReductionChunkBytes(num_nodes);
    EXPECT_EQ(chunk_bytes % kReductionAlignment, 0);
    for (int l = 2; l <= 8; ++l) {
      const ReductionBuffer room = ReductionBufferFor({num_nodes, l}, true, 1 << 30, chunk_bytes);
      EXPECT_LE(room.size_bytes(), 65 * kMiB) << num_nodes << " nodes of " << l;
    }
  }
}

// Ranks on fake GPUs, grouped by node.
class Nodes {
 public:
  Nodes(const std::vector<int>& nodes, int64_t chunk_bytes, uint64_t seed)
      : driver_(seed), nccl_(&driver_), communicators_(nodes.size()) {
    const int size = static_cast<int>(nodes.size());
    driver_.SetNumGpus(size);
    devices_ = *cuda::CreateCudaDevices(&driver_, size);
    const NcclIds ids = *NewNcclIds(*nccl_.api());
    Run([&](int rank) -> absl::Status {
      DPIPE_RETURN_IF_ERROR(devices_[rank]->BindThread());
      NcclOptions options;
      options.api = nccl_.api();
      options.rank = Rank(rank);
      options.size = size;
      options.nodes = nodes;
      options.ids = ids;
      options.device = devices_[rank];
      options.peers = std::make_shared<NoPeers>();
      options.chunk_bytes = chunk_bytes;
      DPIPE_ASSIGN_OR_RETURN(communicators_[rank], CreateNcclCommunicator(std::move(options)));
      return absl::OkStatus();
    });
  }
  ~Nodes() {
    communicators_.clear();
    devices_.clear();
    EXPECT_THAT(driver_.violations(), IsEmpty());
    EXPECT_THAT(nccl_.violations(), IsEmpty());
    EXPECT_EQ(driver_.num_live_handles(), 0);
  }

  void Run(const std::function<absl::Status(int rank)>& body) {
    std::vector<absl::Status> statuses(devices_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < devices_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(static_cast<int>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
  FakeNccl& nccl() { return nccl_; }
  Communicator& communicator(int rank) { return *communicators_[rank]; }
  const std::shared_ptr<Device>& device(int rank) { return devices_[rank]; }

 private:
  cuda::FakeDriver driver_;
  FakeNccl nccl_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

// Sizes that produce several chunks of 1 KiB, split slices, empty shares and an empty tensor.
const std::vector<int64_t>& Sizes() {
  static const auto* const sizes = new std::vector<int64_t>{1, 1000, 0, 7, 3, 613, 64, 2, 2048};
  return *sizes;
}
float Value(int rank, size_t tensor, int64_t i) {
  return RandomStream(rank, i, tensor, RandomPurpose::kTest).NextNormal();
}
// Returns the sum over the ranks in their order, which differs from sums in any other order.
float Sum(const std::vector<Rank>& group, size_t tensor, int64_t i) {
  float sum = Value(group[0].value(), tensor, i);
  for (size_t m = 1; m < group.size(); ++m) sum += Value(group[m].value(), tensor, i);
  return sum;
}
Tensor Vector(const std::shared_ptr<Device>& device, const std::vector<float>& values) {
  return Tensor::FromHost<float>(device, {static_cast<int64_t>(values.size())},
                                 absl::MakeConstSpan(values));
}
std::vector<Tensor> ValuesOf(int rank, const std::shared_ptr<Device>& device) {
  std::vector<Tensor> tensors;
  for (size_t t = 0; t < Sizes().size(); ++t) {
    std::vector<float> values(Sizes()[t]);
    for (int64_t i = 0; i < Sizes()[t]; ++i) values[i] = Value(rank, t, i);
    tensors.push_back(Vector(device, values));
  }
  return tensors;
}

struct Case {
  std::vector<int> nodes;  // by rank
  std::vector<Rank> group;
};

std::vector<Case> Cases() {
  const Rank a(0), b(1), c(2), d(3), e(4), f(5);
  return {
      {{0, 0, 1, 1}, {a, b, c, d}},
      {{0, 0, 1, 1, 2, 2}, {a, b, c, d, e, f}},
      {{0, 0, 0, 1, 1, 1}, {a, b, c, d, e, f}},
      {{0, 0, 0, 1, 1, 1}, {a, c, d, e}},        // two of three per node
      {{0, 0, 1, 1, 2, 2}, {a, b, e, f}},        // not on every node
      {{0, 0, 1, 1, 2, 2}, {a, c, e}},           // one per node
      {{0, 1, 0, 1, 0, 1}, {a, b, c, d, e, f}},  // round-robin
      {{0, 0, 0}, {a, b, c}},
  };
}

TEST(ExactSumsTest, AllReducesAddInRankOrderAcrossNodes) {
  uint64_t seed = 0;
  for (const Case& test : Cases()) {
    Nodes nodes(test.nodes, 1024, ++seed);
    nodes.Run([&](int rank) -> absl::Status {
      if (!std::count(test.group.begin(), test.group.end(), Rank(rank))) return absl::OkStatus();
      std::vector<Tensor> tensors = ValuesOf(rank, nodes.device(rank));
      DPIPE_RETURN_IF_ERROR(
          nodes.communicator(rank).AllReduceSum(test.group, absl::MakeSpan(tensors), "gradients"));
      for (size_t t = 0; t < tensors.size(); ++t) {
        const std::vector<float> sums = HostValues(tensors[t]);
        for (size_t i = 0; i < sums.size(); ++i) {
          EXPECT_EQ(sums[i], Sum(test.group, t, i)) << "rank " << rank << " tensor " << t;
        }
      }
      return absl::OkStatus();
    });
  }
}

TEST(ExactSumsTest, ReduceScattersAddTheSameSumsToShards) {
  uint64_t seed = 0;
  for (const Case& test : Cases()) {
    Nodes nodes(test.nodes, 1024, ++seed);
    nodes.Run([&](int rank) -> absl::Status {
      const auto at = std::find(test.group.begin(), test.group.end(), Rank(rank));
      if (at == test.group.end()) return absl::OkStatus();
      const Shard own{static_cast<int>(at - test.group.begin()),
                      static_cast<int>(test.group.size())};
      const std::vector<Tensor> full = ValuesOf(rank, nodes.device(rank));
      std::vector<Tensor> shards;
      for (int64_t n : Sizes()) {
        shards.push_back(Vector(nodes.device(rank), std::vector<float>(own.Size(n), 1)));
      }
      DPIPE_RETURN_IF_ERROR(nodes.communicator(rank).ReduceScatterSum(
          test.group, full, absl::MakeSpan(shards), "gradients"));
      for (size_t t = 0; t < shards.size(); ++t) {
        const std::vector<float> sums = HostValues(shards[t]), kept = HostValues(full[t]);
        for (size_t i = 0; i < sums.size(); ++i) {
          EXPECT_EQ(sums[i], 1 + Sum(test.group, t, own.Begin(Sizes()[t]) + i)) << "rank " << rank;
        }
        for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], Value(rank, t, i));
      }
      return absl::OkStatus();
    });
  }
}

TEST(ExactSumsTest, AllGathersFillInTheShardsOfAllNodes) {
  uint64_t seed = 0;
  for (const Case& test : Cases()) {
    Nodes nodes(test.nodes, 1024, ++seed);
    nodes.Run([&](int rank) -> absl::Status {
      const auto at = std::find(test.group.begin(), test.group.end(), Rank(rank));
      if (at == test.group.end()) return absl::OkStatus();
      const Shard own{static_cast<int>(at - test.group.begin()),
                      static_cast<int>(test.group.size())};
      std::vector<Tensor> shards, full;
      for (size_t t = 0; t < Sizes().size(); ++t) {
        std::vector<float> values;
        for (int64_t i = own.Begin(Sizes()[t]); i < own.End(Sizes()[t]); ++i) {
          values.push_back(Value(9, t, i));
        }
        shards.push_back(Vector(nodes.device(rank), values));
        full.push_back(Tensor::Zeros(nodes.device(rank), {Sizes()[t]}, DType::kF32));
      }
      DPIPE_RETURN_IF_ERROR(
          nodes.communicator(rank).AllGather(test.group, shards, absl::MakeSpan(full), "weights"));
      for (size_t t = 0; t < full.size(); ++t) {
        const std::vector<float> values = HostValues(full[t]);
        for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], Value(9, t, i));
      }
      return absl::OkStatus();
    });
  }
}

// Three nodes of three ranks. The middle one sends each neighbour the whole tensor once, and a rank
// only communicates with the ranks of the same number on other nodes.
TEST(ExactSumsTest, NodesExchangeATensorOncePerDirection) {
  constexpr int64_t kCount = 3000;
  const std::vector<int> node_of = {0, 0, 0, 1, 1, 1, 2, 2, 2};
  Nodes nodes(node_of, 1024, 1);
  std::vector<Rank> all;
  for (int r = 0; r < 9; ++r) all.push_back(Rank(r));
  nodes.Run([&](int rank) -> absl::Status {
    std::vector<Tensor> tensors = {Tensor::Zeros(nodes.device(rank), {kCount}, DType::kF32)};
    DPIPE_RETURN_IF_ERROR(
        nodes.communicator(rank).AllReduceSum(all, absl::MakeSpan(tensors), "gradients"));
    return nodes.device(rank)->Synchronize();
  });
  std::vector<std::vector<int64_t>> bytes(3, std::vector<int64_t>(3));
  for (int from = 0; from < 9; ++from) {
    for (int to = 0; to < 9; ++to) {
      const int64_t sent = nodes.nccl().SentBytes(from, to);
      bytes[node_of[from]][node_of[to]] += sent;
      if (node_of[from] == node_of[to] || from % 3 == to % 3) continue;
      EXPECT_EQ(sent, 0) << from << " to " << to;
    }
  }
  constexpr int64_t kBytes = 4 * kCount;
  EXPECT_EQ(bytes[0], (std::vector<int64_t>{2 * 2 * kBytes, kBytes, 0}));
  EXPECT_EQ(bytes[1], (std::vector<int64_t>{kBytes, 2 * 2 * kBytes, kBytes}));
  EXPECT_EQ(bytes[2], (std::vector<int64_t>{0, kBytes, 2 * 2 * kBytes}));
}

}  // namespace
}  // namespace dpipe

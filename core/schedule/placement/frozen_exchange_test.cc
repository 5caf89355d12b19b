#include "core/schedule/placement/frozen_exchange.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(FrozenExchangeTest, SplitsInQuanta) {
  const std::vector<SampleRange> shares = SplitEvenly({8, 24}, 3, 4);  // 4 quanta over 3 ranks
  EXPECT_EQ(shares, (std::vector<SampleRange>{{8, 16}, {16, 20}, {20, 24}}));
  EXPECT_EQ(SplitEvenly({0, 2}, 3, 1), (std::vector<SampleRange>{{0, 1}, {1, 2}, {2, 2}}));
}

TEST(FrozenExchangeTest, MergesAdjacentRanges) {
  EXPECT_EQ(Merge({{4, 6}, {0, 2}, {2, 4}, {8, 9}}), (std::vector<SampleRange>{{0, 6}, {8, 9}}));
}

TEST(FrozenExchangeTest, SendsSamplesReadElsewhere) {
  // Rank 0 computes samples 0 to 3, and rank 1 samples 4 to 7. Rank 0 reads all samples, and rank 2
  // reads 2 to 5.
  const std::vector<FrozenMessage> messages = FrozenExchange(
      {{0, 0, {0, 4}, 1}, {0, 1, {4, 8}, 1}}, {{0, 0, {0, 8}, 0}, {0, 2, {2, 6}, 0}});
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].samples, (SampleRange{2, 4}));  // 0 -> 2
  EXPECT_EQ(messages[0].from, 0);
  EXPECT_EQ(messages[0].to, 2);
  EXPECT_EQ(messages[1].samples, (SampleRange{4, 8}));  // 1 -> 0
  EXPECT_EQ(messages[1].to, 0);
  EXPECT_EQ(messages[2].samples, (SampleRange{4, 6}));  // 1 -> 2
  EXPECT_EQ(messages[2].step_offset, 1);
}

// Against brute force: all pairs of an owner's and a reader's sample.
TEST(FrozenExchangeTest, EachSampleReachesEachReaderOnce) {
  RandomStream random(17, 0, 0, RandomPurpose::kTest);
  for (int round = 0; round < 300; ++round) {
    constexpr int kSamples = 24;
    std::vector<FrozenOutput> owners, readers;
    for (int component = 0; component < 2; ++component) {
      for (int begin = 0; begin < kSamples;) {
        const int end = std::min<int>(kSamples, begin + 1 + random.NextBelow(8));
        const int rank = static_cast<int>(random.NextBelow(5));
        owners.push_back({component, rank, {begin, end}, static_cast<int>(random.NextBelow(2))});
        begin = end;
      }
    }
    for (int i = 0; i < 8; ++i) {
      const int begin = static_cast<int>(random.NextBelow(kSamples));
      const int end = begin + 1 + static_cast<int>(random.NextBelow(kSamples - begin));
      const int component = static_cast<int>(random.NextBelow(2));
      readers.push_back({component, static_cast<int>(random.NextBelow(5)), {begin, end}});
    }
    // (component, sample, from, to, offset)
    using Delivery = std::tuple<int, int, int, int, int>;
    std::set<Delivery> expected;
    for (const FrozenOutput& owner : owners) {
      for (const FrozenOutput& reader : readers) {
        if (owner.component != reader.component || owner.rank == reader.rank) continue;
        const SampleRange common = owner.samples.Intersect(reader.samples);
        for (int s = common.begin; s < common.end; ++s) {
          expected.insert({owner.component, s, owner.rank, reader.rank, owner.step_offset});
        }
      }
    }
    std::multiset<Delivery> sent;
    for (const FrozenMessage& m : FrozenExchange(owners, readers)) {
      for (int s = m.samples.begin; s < m.samples.end; ++s) {
        sent.insert({m.component, s, m.from, m.to, m.step_offset});
      }
    }
    EXPECT_EQ(sent, std::multiset<Delivery>(expected.begin(), expected.end())) << round;
  }
}

}  // namespace
}  // namespace dpipe

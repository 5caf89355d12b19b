#include "core/schedule/messages/resharding.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/base/time.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// A message takes `latency_ns` plus `sample_ns` per sample.
struct ReshardingCosts {
  Nanos latency_ns = 0;
  Nanos sample_ns = 1;
};

Nanos TimeOf(const ReshardingMessage& message, const ReshardingCosts& costs) {
  return costs.latency_ns + message.samples.size() * costs.sample_ns;
}

// Returns the time of the busiest engine, sending or receiving: a lower bound for every order.
Nanos BusiestEngine(const std::vector<ReshardingMessage>& messages, const ReshardingCosts& costs) {
  std::map<int, Nanos> sending, receiving;
  Nanos busiest = 0;
  for (const ReshardingMessage& message : messages) {
    const Nanos time = TimeOf(message, costs);
    busiest = std::max({busiest, sending[message.from] += time, receiving[message.to] += time});
  }
  return busiest;
}

// Returns when the last message arrives if each one starts as soon as its two engines have finished
// those before it in the list.
Nanos ReshardingTime(const std::vector<ReshardingMessage>& messages, const ReshardingCosts& costs) {
  std::map<int, Nanos> sender_free, receiver_free;
  Nanos done = 0;
  for (const ReshardingMessage& message : messages) {
    const Nanos start = std::max(sender_free[message.from], receiver_free[message.to]);
    const Nanos end = start + TimeOf(message, costs);
    sender_free[message.from] = receiver_free[message.to] = end;
    done = std::max(done, end);
  }
  return done;
}

TEST(ReshardingTest, ByHand) {
  // Senders have [0, 3) and [3, 6), and receivers two samples each; receiver 1 reads from both.
  const std::vector<ReshardingMessage> messages = ReshardingMessages(6, 2, 3);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].samples, (SampleRange{0, 2}));
  EXPECT_EQ(messages[1].samples, (SampleRange{3, 4}));  // receiver 1: its later sample first
  EXPECT_EQ(messages[2].samples, (SampleRange{4, 6}));
  EXPECT_EQ(messages[3].samples, (SampleRange{2, 3}));
  EXPECT_EQ(messages[3].from, 0);
  EXPECT_EQ(messages[3].to, 1);
  EXPECT_EQ(ReshardingTime(messages, {10, 1}), 10 + 2 + 10 + 1);
}

TEST(ReshardingTest, OrderCanMatter) {
  // Three senders, two receivers. In sample order, receiver 1 waits for sender 1, which is last at
  // receiver 0.
  std::vector<ReshardingMessage> messages = ReshardingMessages(6, 3, 2);
  EXPECT_EQ(ReshardingTime(messages, {0, 1}), 3);
  std::sort(messages.begin(), messages.end(),
            [](const auto& a, const auto& b) { return a.samples < b.samples; });
  EXPECT_EQ(ReshardingTime(messages, {0, 1}), 6);
}

TEST(ReshardingTest, EverySampleMovesOnceBetweenItsRanks) {
  for (int senders = 1; senders <= 8; ++senders) {
    for (int receivers = 1; receivers <= 8; ++receivers) {
      const int size = std::lcm(senders, receivers) * 2;
      std::vector<int> moved(size, 0);
      const auto messages = ReshardingMessages(size, senders, receivers);
      EXPECT_LT(static_cast<int>(messages.size()), senders + receivers);
      for (const ReshardingMessage& message : messages) {
        for (int i = message.samples.begin; i < message.samples.end; ++i) {
          ++moved[i];
          EXPECT_EQ(message.from, i / (size / senders));
          EXPECT_EQ(message.to, i / (size / receivers));
        }
      }
      EXPECT_EQ(moved, std::vector<int>(size, 1));
    }
  }
}

TEST(ReshardingTest, TakesAsLongAsTheBusiestEngine) {
  for (int senders = 1; senders <= 16; ++senders) {
    for (int receivers = 1; receivers <= 16; ++receivers) {
      const auto messages =
          ReshardingMessages(std::lcm(senders, receivers) * 3, senders, receivers);
      for (Nanos latency : {0, 1, 7, 1000}) {
        EXPECT_EQ(ReshardingTime(messages, {latency, 2}), BusiestEngine(messages, {latency, 2}))
            << senders << " to " << receivers;
      }
    }
  }
}

TEST(ReshardingTest, NoOrderIsFaster) {
  int compared = 0;
  for (int senders = 1; senders <= 5; ++senders) {
    for (int receivers = 1; receivers <= 5; ++receivers) {
      const auto planned = ReshardingMessages(std::lcm(senders, receivers), senders, receivers);
      if (planned.size() > 7) continue;
      std::vector<int> order(planned.size());
      std::iota(order.begin(), order.end(), 0);
      Nanos shortest = ReshardingTime(planned, {3, 2});
      do {
        std::vector<ReshardingMessage> messages;
        for (int m : order) messages.push_back(planned[m]);
        shortest = std::min(shortest, ReshardingTime(messages, {3, 2}));
      } while (std::next_permutation(order.begin(), order.end()));
      EXPECT_EQ(ReshardingTime(planned, {3, 2}), shortest);
      ++compared;
    }
  }
  EXPECT_GT(compared, 15);
}

}  // namespace
}  // namespace dpipe

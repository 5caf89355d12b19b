#include "core/schedule/resharding.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"

namespace dpipe {
namespace {

Nanos TimeOf(const ReshardingMessage& message, const ReshardingCosts& costs) {
  return costs.latency_ns + message.samples.size() * costs.sample_ns;
}

}  // namespace

std::vector<ReshardingMessage> ReshardingMessages(int micro_batch_size, int senders,
                                                  int receivers) {
  DPIPE_CHECK_EQ(micro_batch_size % senders, 0);
  DPIPE_CHECK_EQ(micro_batch_size % receivers, 0);
  const int sent = micro_batch_size / senders;
  const int received = micro_batch_size / receivers;
  std::vector<ReshardingMessage> messages;
  for (int begin = 0; begin < micro_batch_size;) {
    const int from = begin / sent, to = begin / received;
    const int end = std::min((from + 1) * sent, (to + 1) * received);
    messages.push_back({from, to, {begin, end}});
    begin = end;
  }
  const int coarse = std::max(sent, received);
  std::stable_sort(messages.begin(), messages.end(),
                   [coarse](const ReshardingMessage& a, const ReshardingMessage& b) {
                     return a.samples.begin % coarse < b.samples.begin % coarse;
                   });
  return messages;
}

Nanos BusiestEngine(const std::vector<ReshardingMessage>& messages, const ReshardingCosts& costs) {
  std::map<int, Nanos> sending, receiving;
  Nanos busiest = 0;
  for (const ReshardingMessage& message : messages) {
    const Nanos time = TimeOf(message, costs);
    busiest = std::max({busiest, sending[message.from] += time, receiving[message.to] += time});
  }
  return busiest;
}

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

}  // namespace dpipe

#include "core/schedule/messages/resharding.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {
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

}  // namespace dpipe

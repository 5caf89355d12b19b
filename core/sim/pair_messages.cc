#include "core/sim/pair_messages.h"

#include "core/schedule/messages/rendezvous.h"

namespace dpipe {
namespace {

struct Entry {
  MessageEnd end;
  int peer = 0;
};

// Stable counting sort.
template <typename Key>
std::vector<Entry> SortedBy(const std::vector<Entry>& entries, int num_keys, Key key) {
  std::vector<int> at(num_keys + 1, 0);
  for (const Entry& entry : entries) ++at[key(entry) + 1];
  for (int k = 0; k < num_keys; ++k) at[k + 1] += at[k];
  std::vector<Entry> sorted(entries.size());
  for (const Entry& entry : entries) sorted[at[key(entry)]++] = entry;
  return sorted;
}

int RankOf(const Entry& entry) { return entry.end.rank; }
int PeerOf(const Entry& entry) { return entry.peer; }

bool SameContent(const Instruction& send, const Instruction& recv) {
  return send.payload() == recv.payload() && send.stage() == recv.peer_stage() &&
         send.peer_stage() == recv.stage() && send.component() == recv.component() &&
         send.micro_batch() == recv.micro_batch() && send.bytes() == recv.bytes() &&
         send.step_offset() == recv.step_offset() &&
         send.samples().begin() == recv.samples().begin() &&
         send.samples().end() == recv.samples().end();
}

// Returns MatchMessages' description of the error.
absl::Status Explain(const Plan& plan) {
  const absl::Status status = MatchMessages(plan).status();
  return status.ok() ? absl::InternalError("sends and receives do not match") : status;
}

}  // namespace

absl::StatusOr<std::vector<MessagePair>> PairMessages(const Plan& plan) {
  const int num_ranks = plan.devices_size();
  std::vector<Entry> sends, recvs;  // by (rank, instruction)
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto& list = plan.devices(rank).instructions();
    for (int i = 0; i < list.size(); ++i) {
      if (list[i].kind() == Instruction::SEND) sends.push_back({{rank, i}, list[i].peer()});
      if (list[i].kind() == Instruction::RECV) recvs.push_back({{rank, i}, list[i].peer()});
    }
  }
  if (sends.size() != recvs.size()) return Explain(plan);
  sends = SortedBy(sends, num_ranks, PeerOf);
  recvs = SortedBy(SortedBy(recvs, num_ranks, PeerOf), num_ranks, RankOf);
  std::vector<MessagePair> pairs;
  pairs.reserve(sends.size());
  for (size_t k = 0; k < sends.size(); ++k) {
    const Entry& send = sends[k];
    const Entry& recv = recvs[k];
    if (send.peer != recv.end.rank || recv.peer != send.end.rank ||
        !SameContent(plan.devices(send.end.rank).instructions(send.end.instruction),
                     plan.devices(recv.end.rank).instructions(recv.end.instruction))) {
      return Explain(plan);
    }
    pairs.push_back({send.end, recv.end});
  }
  return pairs;
}

}  // namespace dpipe

// How early each receive can be posted without risk of a deadlock.
//
// Model: lanes are devices, and nodes are what a device does in list order other than messages. A
// message is sent right after one node, and received right before a node of another lane. The
// messages of a lane between two nodes are posted together.
//
// Under blocking rendezvous (rendezvous.h) there is no deadlock if and only if this graph has no
// cycle. The members of a collective are one node, and the edges are
//   - from each node to the next one of its lane;
//   - from the node before a SEND to the node after the RECV;
//   - from the node before a RECV to the node after the SEND.
// (rendezvous.h also constrains several messages of one link between two nodes. Their order settles
// that; see OrderMessages.)
//
// Algorithm:
//   1. Take each node's times from a run in which messages take no time.
//   2. Receive each message at the first node that starts no earlier than it was sent. Every edge
//      then goes forward in time, so there is no cycle.
//   3. Move one message after another to the wanted node, or as near as possible. Each move is
//      checked by incremental cycle detection, which maintains a topological order. It searches
//      from both ends of the new edge, within the part of the order between them. When one side is
//      exhausted, that side moves past the other. (Compare Bender, Fineman, Gilbert and Tarjan, "A
//      new approach to incremental cycle detection and related problems", TALG 2015.)
//
// Messages of a link keep the order in which they are sent.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_

#include <utility>
#include <vector>

#include "core/base/time.h"

namespace dpipe {

struct Lanes {
  struct Message {
    int from = 0, to = 0;  // lanes; they differ
    int after = 0;         // the node of `from` after which it is sent
    Nanos sent = 0;        // when that node ends
    int wanted = 0;        // the preferred node of `to` to receive it before
    bool first = false;    // true: moved before messages for which this is false
  };
  // Members (lane, node) on different lanes; they wait for each other and start together.
  using Collective = std::vector<std::pair<int, int>>;

  std::vector<std::vector<Nanos>> start;  // by lane and node; non-decreasing within a lane
  std::vector<Message> messages;          // those of one link in the order of `after`
  // In their order on every lane. At equal times they precede other nodes.
  std::vector<Collective> collectives;
};

// Returns for each message the node of `to` before which it is received.
std::vector<int> RecvPositions(const Lanes& lanes);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_

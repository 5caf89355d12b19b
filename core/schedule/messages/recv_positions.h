// How early receives can be posted without a deadlock.
//
// Lanes are devices, nodes what they do in list order other than messages. A message is sent right
// after one node and received right before another one of another lane. Under blocking rendezvous
// (rendezvous.h) with every lane's messages between two nodes posted together, nothing deadlocks if
// and only if this graph has no cycle: each node before the next one of its lane; the node before a
// SEND before the one after the RECV; the node before a RECV before the one after the SEND; the
// members of a collective being one node. (What rendezvous.h asks beyond that, of several messages
// of a link between two nodes, is a matter of their order, which OrderMessages sees to.)
//
// Nodes come with times of a run in which messages take none. Receiving each message at the first
// node that starts no sooner than it was sent has no cycle, as every edge then goes forward in
// time. From there, one message after another is moved to, or as near as possible to, where it is
// wanted, each move checked by keeping a topological order up to date: a search from both ends of
// the new edge, within the part of the order between them, ends when one side has nothing left, and
// that side moves past the other. (Compare Bender, Fineman, Gilbert and Tarjan, "A new approach to
// incremental cycle detection and related problems", TALG 2015.) Messages of a link keep the order
// in which they are sent.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_

#include <utility>
#include <vector>

#include "core/base/time.h"

namespace dpipe {

struct Lanes {
  struct Message {
    int from = 0, to = 0;  // lanes, which differ
    int after = 0;         // node of `from` that it is sent after
    Nanos sent = 0;        // when that node ends
    int wanted = 0;        // node of `to` before which it would best be received
    bool first = false;    // whether it is moved before those that are not
  };
  // Members (lane, node) on different lanes, which wait for each other and start at one time.
  using Collective = std::vector<std::pair<int, int>>;

  std::vector<std::vector<Nanos>> start;  // by lane and node; does not decrease
  std::vector<Message> messages;          // of one link in the order of `after`
  // In the order in which they stand on every lane. At equal times they come before other nodes.
  std::vector<Collective> collectives;
};

// By message, the node of `to` before which it is received.
std::vector<int> RecvPositions(const Lanes& lanes);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RECV_POSITIONS_H_

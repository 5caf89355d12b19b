// Ranks with a GPU each, in one process or many, over NCCL.
//
// Messages of a rank to higher ranks go over one communicator and stream, those to lower ranks over
// another, collectives over a third. On each, operations run one after another in the order of the
// rank's calls: a collective, or an NCCL group of messages. A run of messages (BeginMessages) is
// one group a communicator; but of several messages from one rank to another, the second begins a
// new one. All messages of a group are under way at once, and each waits until the other side has
// come to it; what the group is followed by waits for all of them.
//
// A plan cannot deadlock here that passes VerifyPlan, where a rank posts each group of a run of
// messages when all before it, in its list and of its way, is through, and goes on when the run is.
// Take what happens there one by one. When a group is posted there, what precedes it is through
// there, and so here: it has its inputs, and the groups before it in its queue are through, so that
// it is under way. When it is through there, the other side of each of its messages has been
// posted, so that it is under way here too. Two queues and not one, because a rank that waits for
// what comes from below can still answer from above.
//
// NCCL has no two calls to one rank under way at a time, nor two from it; the next begins when the
// group's others are through (nccl_message.h). So a message is one call.
//
// Messages have no tags on the way. MatchMessages says that the two sides of a pair of ranks call
// in the same order; the shapes are agreed on by the plan.
//
// Sums are taken in rank order, as the contract wants and NCCL's own reductions do not: within a
// node each rank receives its share of every other rank's tensor and adds them up; the sums go from
// node to node (exact_sums.h). That is as much traffic as a ring's, within nodes and between them.
//
// Waits are put on the device's stream. The rank's thread is held up by creation, by the sum of
// doubles, and where two ranks talk for the first time: NCCL connects them when both have called,
// and not before all that are called in the same group have. ExpectMessages does that for all
// messages at once, because ranks that come to it in the order of their lists could wait for each
// other in a circle; collectives do it in the order that the contract requires.
//
// A thread of the communicator looks after deadlines and NCCL's errors (nccl_failure.h): the first
// one aborts this rank's communicators and is told to the other ranks (nccl_peers.h).
//
// The parts, in the order of reading:
//
//   nccl_call.h          a group of NCCL's calls, on a nonblocking communicator
//   comm_stream.h        a communicator with its stream, and the operations that are under way
//   rank_streams.h       the three of a rank
//   nccl_failure.h       what ends them, and what is said of it
//   nccl_message.h       a message as one call; message_runs.h: those that go together
//   exact_sums.h         sums in rank order; nccl_collectives.h: the collectives made of them
//   connect_nccl.h       how ranks find each other
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/nccl_peers.h"
#include "core/comm/nccl/rank_streams.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

struct NcclOptions {
  const NcclApi* api = nullptr;  // LoadNccl()
  Rank rank;
  int size = 1;
  NcclIds ids;
  std::shared_ptr<Device> device;  // a GPU that no other rank of the job has
  absl::Duration deadline = absl::Seconds(120);
  std::shared_ptr<NcclPeers> peers;
  std::vector<int> nodes;   // where each rank is, numbered in any way; empty: all on one node
  int64_t chunk_bytes = 0;  // of a reduction's tensors a step; 0: ReductionChunkBytes
};

// Returns when all ranks have come; a rank that cannot tells the others. FailedPrecondition for a
// virtual GPU: NCCL refuses two ranks on one GPU, which the in-process communicator serves.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(NcclOptions options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

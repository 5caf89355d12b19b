// Ranks with a GPU each, in one process or many, over NCCL.
//
// A rank's messages to higher ranks go over one communicator and stream, those to lower ranks over
// another, and collectives over a third. On each, operations run one after another in the order of
// the rank's calls. An operation is a collective, or an NCCL group of messages. A run of messages
// (BeginMessages) is one group per communicator, except that a second message from one rank to the
// same rank begins a new group. All messages of a group are in flight at once, and each waits until
// the other side has reached it. Whatever follows the group waits for all of them.
//
// A plan that passes VerifyPlan cannot deadlock here. In VerifyPlan's model, a rank posts each
// group of a run when everything before it in the rank's list and in its direction has completed.
// The rank continues when the whole run has completed. The proof is by induction over the events of
// that model:
// - When a group is posted in the model, everything before it has completed there, and so here. The
//   group has its inputs, and the earlier groups in its queue have completed, so it is in flight.
// - When a group completes in the model, the other side of each of its messages has been posted
//   there, and so is in flight here too.
//
// There are two queues, not one, because a rank that waits for a message from below must still be
// able to answer one from above.
//
// NCCL has at most one call to each rank, and one from each, in flight at a time. The next one
// begins when the group's other calls have completed (message_runs.h). So a message is one call.
//
// Messages carry no tags. MatchMessages guarantees that the two sides of a pair of ranks call in
// the same order; the plan determines the shapes.
//
// Sums are taken in rank order, as the contract requires and NCCL's own reductions do not
// guarantee: within a node each rank receives its share of every other rank's tensor and adds them
// up, and the sums go from node to node (exact_sums.h). This is as much traffic as a ring's, within
// nodes and between them.
//
// Waits are enqueued on the device's stream. The rank's thread blocks only during creation, in the
// sum of doubles, and when two ranks communicate for the first time. NCCL connects two ranks when
// both have called, but not before all other peers of the same group have called too.
// ExpectMessages connects all of them at once, because ranks that reach their first messages in the
// order of their lists could wait for each other in a circle. Collectives connect in the order that
// the contract requires.
//
// A thread of the communicator checks deadlines and NCCL's errors (nccl_failure.h). The first
// failure aborts this rank's communicators and is reported to the other ranks (nccl_failure.h).
//
// The parts, in reading order:
//
//   nccl_call.h          a group of NCCL's calls, on a nonblocking communicator
//   comm_stream.h        a communicator with its stream and the operations in flight; the three
//                        communicators of a rank
//   nccl_failure.h       failures: detection, effects and messages
//   message_runs.h       messages as one call each, and those that go together
//   exact_sums.h         sums in rank order; nccl_collectives.h: collectives made of them
//   connect_nccl.h       how ranks find each other
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/comm/nccl/nccl_failure.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

struct NcclOptions {
  const NcclApi* api = nullptr;  // LoadNccl()
  Rank rank;
  int size = 1;
  NcclIds ids;
  std::shared_ptr<Device> device;  // a GPU that no other rank of the job uses
  absl::Duration deadline = absl::Seconds(120);
  std::shared_ptr<NcclPeers> peers;
  std::vector<int> nodes;   // by rank, numbered in any way; empty: all ranks on one node
  int64_t chunk_bytes = 0;  // of a reduction's tensors per step; 0: ReductionChunkBytes
};

// Returns when all ranks have joined. A rank that fails to join tells the others. Returns
// FailedPrecondition for a virtual GPU: NCCL refuses two ranks on one GPU, for which there is
// CreatePeerCommunicators.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(NcclOptions options);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

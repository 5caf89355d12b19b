// Ranks on GPUs of their own, in one process or many, over NCCL.
//
// Messages of a rank to higher ranks go over one communicator and stream, those to lower ranks over
// another, collectives over a third. On each, operations run one after another in the order of the
// rank's calls, and a message waits there until the other side has come to it. A plan that passes
// VerifyPlan cannot deadlock if every send and receive blocks its rank until the other side is
// there; three independent queues wait for less, so it cannot deadlock here either: of the messages
// not yet through take the first in the order of that blocking run. All before it on its two queues
// are through, so both sides are at it. The tensors of a message are one NCCL group.
//
// Messages have no tags on the way. The same argument says that the two sides of a pair of ranks
// call in the same order; the shapes are agreed on by the plan.
//
// Sums are taken in rank order, as the contract has it and NCCL's own reductions do not: each rank
// receives its share of every other rank's tensor, adds them up, and sends the sum to all. That is
// as much traffic as a ring's.
//
// Nothing blocks the rank's thread but creation and the sum of doubles: waits are put on the
// device's stream. A thread of the communicator looks after deadlines and NCCL's errors; the first
// one aborts this rank's communicators and is told to the other ranks by `announce`.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

// What the ranks of a job must agree on before they can talk: made by one of them, handed to all by
// whoever starts them.
struct NcclIds {
  std::string up, down, collectives;
};
absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api);

struct NcclOptions {
  const NcclApi* api = nullptr;  // LoadNccl()
  Rank rank;
  int size = 1;
  NcclIds ids;
  std::shared_ptr<Device> device;  // a GPU that no other rank of the job has
  absl::Duration deadline = absl::Seconds(120);
  // Tells the other ranks, so that they call Abort; called once, on any thread. May be empty.
  std::function<void(const absl::Status&)> announce;
};

// Returns when all ranks have come. FailedPrecondition for a virtual GPU: NCCL refuses two ranks on
// one GPU, which the in-process communicator serves.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(NcclOptions options);

// The communicators of ranks that are threads of this process, a GPU each.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateLocalNcclCommunicators(
    const NcclApi* api, const std::vector<std::shared_ptr<Device>>& devices,
    absl::Duration deadline);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

// The communicators of one rank.
#ifndef DPIPE_CORE_COMM_NCCL_RANK_STREAMS_H_
#define DPIPE_CORE_COMM_NCCL_RANK_STREAMS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/device.h"

namespace dpipe {

// NCCL ids, one per communicator, that the ranks of a job must agree on before they can
// communicate. One rank creates them, and the code that starts the ranks distributes them.
struct NcclIds {
  std::string up, down, collectives;
};
absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api);

// Messages use two communicators, one per direction, because a rank that waits for a message from a
// lower rank must still be able to answer a higher one.
struct RankStreams {
  std::unique_ptr<CommStream> up;           // messages from lower ranks to higher ones
  std::unique_ptr<CommStream> down;         // messages from higher ranks to lower ones
  std::unique_ptr<CommStream> collectives;  // and sums of doubles

  // Creates the streams without communicators. `deadline` applies to joining and to every
  // operation.
  static absl::StatusOr<RankStreams> Create(const NcclApi* api,
                                            const std::shared_ptr<Device>& device,
                                            absl::Duration deadline);
  // Returns when all ranks have joined all three communicators.
  absl::Status Connect(const NcclIds& ids, Rank rank, int size) const;
  std::vector<CommStream*> all() const { return {up.get(), down.get(), collectives.get()}; }
  bool Idle() const { return up->Idle() && down->Idle() && collectives->Idle(); }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_RANK_STREAMS_H_

// A rank's collectives, which run one after another on one communicator and stream.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_COLLECTIVES_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/comm/nccl/exact_sums.h"
#include "core/comm/nccl/nccl_failure.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Used by the rank's thread. The methods are those of Communicator, with sums in rank order
// (exact_sums.h).
class NcclCollectives {
 public:
  struct Options {
    Rank rank;
    int size = 1;
    std::shared_ptr<Device> device;
    std::vector<int> nodes;   // by rank; empty: all ranks are on one node
    int64_t chunk_bytes = 0;  // of a reduction's tensors per step; 0: ReductionChunkBytes
  };
  // `stream` and `failure` outlive this and the objects that it returns.
  NcclCollectives(Options options, CommStream* stream, NcclFailure* failure);

  Communicator::StartedCollective StartAllReduceSum(absl::Span<const Rank> group,
                                                    std::vector<Tensor> tensors,
                                                    const std::string& what);
  Communicator::StartedCollective StartAllGather(absl::Span<const Rank> group,
                                                 std::vector<Tensor> shards,
                                                 std::vector<Tensor> full, const std::string& what);
  Communicator::StartedCollective StartReduceScatterSum(absl::Span<const Rank> group,
                                                        std::vector<Tensor> full,
                                                        std::vector<Tensor> shards,
                                                        const std::string& what);
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what);

 private:
  int64_t ChunkBytes(NodeLayout layout) const;
  // Returns workspace of at least that size.
  Tensor ReductionBuffer(int64_t size_bytes);
  Communicator::StartedCollective StartReduction(ExactReduction reduction, const std::string& what);
  Communicator::StartedCollective Start(CommStream::Operation operation);
  absl::StatusOr<std::shared_ptr<CommEvent>> Enqueue(CommStream::Operation operation);

  const Options options_;
  cuda::CudaDevice& device_;
  CommStream& stream_;
  NcclFailure& failure_;
  std::optional<Tensor> reduction_room_;  // shared by all reductions, which run one after another
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_COLLECTIVES_H_

// Collectives made of NCCL's sends and receives, with sums in rank order.
//
// The ranks of a group are on k nodes, with l = n / k neighbouring ranks on each. A node's ranks
// divide every slice of a tensor into l shares, one per rank. The ranks that are number i of their
// nodes form a chain for share number i:
//
//   exchange   each rank receives its share from the other ranks of its node
//   chain      each node adds its ranks' shares, in rank order, to the sum that it receives from
//              the previous node
//   return     the last node's sum goes back through the chain (all-reduce), or to the node whose
//              ranks it is for (reduce-scatter)
//   spread     each rank sends its share of the sum to the other ranks of its node (all-reduce)
//
// Chunks of slices follow each other through these stages, one step apart, so that the links within
// nodes and between nodes are busy at the same time. A node's network interfaces carry the tensor
// once in each direction for the chain and once for its return, for any l. If every rank exchanged
// shares with every other rank, the traffic would be l times as much. On one node (k = 1) there is
// no chain.
#ifndef DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_
#define DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/nccl_call.h"
#include "core/comm/nccl/reduction_slices.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// An all-reduce or a reduce-scatter of fp32 tensors.
struct ExactReduction {
  RankGroup group;
  NodeLayout layout;
  int64_t chunk_bytes = 0;
  std::vector<Tensor> tensors;  // this rank's inputs
  std::vector<Tensor> sums;     // empty for an all-reduce
  std::vector<Chunk> chunks;
};
// Creates an all-reduce: the sums replace the tensors on every rank.
ExactReduction AllReduceOf(RankGroup group, NodeLayout layout, int64_t chunk_bytes,
                           std::vector<Tensor> tensors);
// Creates a reduce-scatter: the sum of this rank's share of tensors[i], Shard{its position, group
// size}, is added to sums[i]. The tensors are not modified.
ExactReduction ReduceScatterOf(RankGroup group, NodeLayout layout, int64_t chunk_bytes,
                               std::vector<Tensor> tensors, std::vector<Tensor> sums);

// Returns the bytes of fp32 workspace that a reduction needs in addition to its tensors, the same
// as ReductionBufferFor.
int64_t RoomBytes(const ExactReduction& reduction);
// Enqueues the whole reduction on the call's stream. `room` has at least RoomBytes bytes.
absl::Status EnqueueReduction(const NcclCall& call, const ExactReduction& reduction,
                              const Tensor& room);

// Enqueues an all-gather on the call's stream. Fills full[i] with the shards of all ranks of the
// group; shards[i] is this rank's shard. A shard is sent to each other node once, and within that
// node from rank to rank.
absl::Status EnqueueAllGather(const NcclCall& call, const RankGroup& group, NodeLayout layout,
                              absl::Span<const Tensor> shards, absl::Span<const Tensor> full);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_

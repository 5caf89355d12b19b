// How the tensors of a reduction are divided: among the ranks of a node, and in time.
#ifndef DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_
#define DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/reduction_chunks.h"
#include "core/comm/contract.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// `nodes`: the node of every rank of the job; empty: all are on one. A group is taken for one node
// whose nodes have one rank each (within them there is nothing to exchange), different numbers of
// ranks, or ranks that are not neighbours in the group (sums would not be in rank order).
NodeLayout LayoutOf(const RankGroup& group, absl::Span<const int> nodes);

// Elements of a tensor.
struct ElementRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// Elements of a tensor that are added up at once, with a share for each rank of a node.
struct Slice {
  size_t tensor = 0;
  int home = -1;  // the node whose ranks get the sum of their shares; -1: all nodes
  std::vector<ElementRange> shares;
};

// The slices that take a step together.
using Chunk = std::vector<Slice>;

int64_t BytesOf(absl::Span<const Tensor> tensors);

// Cover all elements of `tensors`, fp32, in their order. A chunk has at most `chunk_bytes` or a
// single slice, and no rank's shares of it take more than a row of ReductionRoomFor. Shares begin
// at multiples of 16 bytes, in the tensors and in rows.
std::vector<Chunk> AllReduceChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                   int64_t chunk_bytes);
// The same, where the shares of the slices of home h are parts of those that the ranks of node h
// have of the tensor: rank i of that node Shard{h * ranks_per_node + i, group size}.
std::vector<Chunk> ReduceScatterChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                       int64_t chunk_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_

// How the tensors of a reduction are divided, among the ranks of a node and over time.
#ifndef DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_
#define DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/reduction_chunks.h"
#include "core/comm/communicator.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Returns how a group is laid out on nodes. `nodes` has the node of every rank of the job; empty:
// all are on one. A group counts as one node in these cases:
// - Each of its nodes has one rank: there is nothing to exchange within them.
// - Its nodes have different numbers of ranks.
// - A node's ranks are not neighbours in the group: sums would not be in rank order.
NodeLayout LayoutOf(const RankGroup& group, absl::Span<const int> nodes);

// A range of a tensor's elements.
struct ElementRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// Elements of a tensor that are summed at once, with a share for each rank of a node.
struct Slice {
  size_t tensor = 0;
  int home = -1;  // the node whose ranks get the sums of their shares; -1: all nodes
  std::vector<ElementRange> shares;
};

// Slices that are processed in the same step.
using Chunk = std::vector<Slice>;

int64_t BytesOf(absl::Span<const Tensor> tensors);

// Returns chunks that cover all elements of `tensors`, fp32, in order. A chunk has at most
// `chunk_bytes` or a single slice, and no rank's shares of it exceed a row of ReductionBufferFor.
// Shares begin at multiples of 16 bytes, in the tensors and in rows.
std::vector<Chunk> AllReduceChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                   int64_t chunk_bytes);
// Returns the same for a reduce-scatter. The shares of a slice with home h are parts of those that
// the ranks of node h have of the tensor: rank i of that node has Shard{h * ranks_per_node + i,
// group size}.
std::vector<Chunk> ReduceScatterChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                       int64_t chunk_bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_REDUCTION_SLICES_H_

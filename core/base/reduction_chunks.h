// The chunks and the working memory of rank-ordered sums over NCCL. Shared by the communicator
// (core/comm/nccl/exact_sums.h) and by planning (core/cost/collectives.h,
// core/schedule/memory/memory.h).
#ifndef DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_
#define DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_

#include <algorithm>
#include <cstdint>

namespace dpipe {

// The placement of a group's ranks on nodes: neighbouring ranks on each node, equally many.
struct NodeLayout {
  int num_nodes = 1;
  int ranks_per_node = 1;

  int NodeOf(int member) const { return member / ranks_per_node; }
  int LocalOf(int member) const { return member % ranks_per_node; }
  int MemberAt(int node, int local) const { return node * ranks_per_node + local; }
};

// Returns the bytes of its tensors that a reduction handles per step. While a chain of k nodes
// fills and drains, the links wait for about 2 (k-2) chunks. With chunks of 32 MiB / k, these waits
// amount to less than 64 MiB. From 16 nodes on, a chunk is 2 MiB: it takes 40 us on a link of 50
// GB/s, and starting a step takes about 20 us.
inline int64_t ReductionChunkBytes(int num_nodes) {
  return std::max(int64_t{2} << 20, (int64_t{32} << 20) / num_nodes / 16 * 16);
}

// Kernels and NCCL are fastest with pieces aligned to 16 bytes.
constexpr int64_t kReductionAlignment = 16;
inline int64_t AlignedForReduction(int64_t bytes) {
  return (bytes + kReductionAlignment - 1) / kReductionAlignment * kReductionAlignment;
}

// Working memory of a reduction, excluding its tensors. The same on every rank of the group.
//
// Each chunk in flight has a slot of rows, and a row holds one rank's shares. There is one row per
// other rank of the node. With several nodes there is one more, for the partial sum that comes from
// the previous node or goes to the next. The sums that a reduce-scatter returns from the last node
// land in a separate row.
struct ReductionBuffer {
  int64_t num_slots = 0;  // chunks in flight
  int64_t num_rows = 0;   // per slot
  bool has_landing = false;
  int64_t row_bytes = 0;

  int64_t size_bytes() const { return row_bytes * (num_slots * num_rows + (has_landing ? 1 : 0)); }
};

// Returns the working memory for tensors of `tensor_bytes` in total. A row holds a rank's share of
// a chunk, plus padding for slice ends that are not multiples of 16 bytes. At most about 64 MiB for
// chunks of ReductionChunkBytes.
inline ReductionBuffer ReductionBufferFor(NodeLayout layout, bool scatters, int64_t tensor_bytes,
                                          int64_t chunk_bytes) {
  constexpr int64_t kEnds = 4 * kReductionAlignment;
  const bool chained = layout.num_nodes > 1;
  ReductionBuffer room;
  room.num_slots = chained ? 3 : 2;  // being received, added and, in a chain, sent on
  room.num_rows = layout.ranks_per_node - 1 + (chained ? 1 : 0);
  room.has_landing = chained && scatters;
  room.row_bytes =
      AlignedForReduction(std::min(tensor_bytes, chunk_bytes / layout.ranks_per_node)) + kEnds;
  return room;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_

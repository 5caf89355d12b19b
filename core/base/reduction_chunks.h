// How sums in rank order over NCCL are divided in time, and the memory that they work with: what
// the communicator does (core/comm/nccl/exact_sums.h), and what planning counts for it
// (core/cost/collectives.h, core/schedule/memory.h).
#ifndef DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_
#define DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_

#include <algorithm>
#include <cstdint>

namespace dpipe {

// How a group's ranks lie on nodes: neighbouring ranks on each, equally many.
struct NodeLayout {
  int num_nodes = 1;
  int ranks_per_node = 1;

  int NodeOf(int member) const { return member / ranks_per_node; }
  int LocalOf(int member) const { return member % ranks_per_node; }
  int MemberAt(int node, int local) const { return node * ranks_per_node + local; }
};

// How many bytes of its tensors a reduction handles in a step. While a chain of k nodes fills and
// drains, the links wait for some 2 (k-2) chunks to pass: with 32 MiB / k a chunk that stays below
// 64 MiB. From 16 nodes on a chunk is 2 MiB: on a link of 50 GB/s that takes 40 us, while to begin
// a step takes some 20 us.
inline int64_t ReductionChunkBytes(int num_nodes) {
  return std::max(int64_t{2} << 20, (int64_t{32} << 20) / num_nodes / 16 * 16);
}

// Kernels and NCCL are quickest with pieces that begin at multiples of 16 bytes.
constexpr int64_t kReductionAlignment = 16;
inline int64_t AlignedForReduction(int64_t bytes) {
  return (bytes + kReductionAlignment - 1) / kReductionAlignment * kReductionAlignment;
}

// The memory of a reduction besides its tensors: the same on every rank of the group.
//
// Of each chunk that is under way there are rows, of one rank's shares each: those that the other
// ranks of the node send, and where there are several nodes the sum that comes from the node before
// or goes to the next. Where a reduce-scatter's sums come home from the last node, they land in
// another row.
struct ReductionRoom {
  int64_t num_slots = 0;  // chunks under way
  int64_t num_rows = 0;   // of a slot
  bool has_landing = false;
  int64_t row_bytes = 0;

  int64_t size_bytes() const { return row_bytes * (num_slots * num_rows + (has_landing ? 1 : 0)); }
};

// For tensors of so many bytes together. A row holds what a rank has of a chunk, and as much more
// as a slice's ends can need that do not fall on multiples of 16 bytes. At most some 64 MiB for
// chunks of ReductionChunkBytes.
inline ReductionRoom ReductionRoomFor(NodeLayout layout, bool scatters, int64_t tensor_bytes,
                                      int64_t chunk_bytes) {
  constexpr int64_t kEnds = 4 * kReductionAlignment;
  const bool chained = layout.num_nodes > 1;
  ReductionRoom room;
  room.num_slots = chained ? 3 : 2;  // received, added up and, in a chain, sent on
  room.num_rows = layout.ranks_per_node - 1 + (chained ? 1 : 0);
  room.has_landing = chained && scatters;
  room.row_bytes =
      AlignedForReduction(std::min(tensor_bytes, chunk_bytes / layout.ranks_per_node)) + kEnds;
  return room;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_REDUCTION_CHUNKS_H_

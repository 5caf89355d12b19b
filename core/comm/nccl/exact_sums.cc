#include "core/comm/nccl/exact_sums.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/shard.h"

namespace dpipe {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

ReductionBuffer RoomOf(const ExactReduction& reduction) {
  return ReductionBufferFor(reduction.layout, !reduction.sums.empty(), BytesOf(reduction.tensors),
                            reduction.chunk_bytes);
}

// Positions of the in-flight chunks in a reduction's workspace. Chunk c uses slot c mod the number
// of slots. In a slot, a slice has one row for each other rank of the node, in which that rank's
// share arrives; an extra row, if any, holds the sum that they are added to. After the slots comes
// the landing, in which a slice's sum arrives from the last node.
class Room {
 public:
  explicit Room(const ExactReduction& reduction)
      : local_(reduction.layout.LocalOf(reduction.group.own.index)),
        room_(RoomOf(reduction)),
        row_floats_(room_.row_bytes / kFloatBytes) {
    for (const Chunk& chunk : reduction.chunks) {
      offsets_.emplace_back();
      int64_t bytes = 0;
      for (const Slice& slice : chunk) {
        offsets_.back().push_back(bytes / kFloatBytes);
        bytes += AlignedForReduction(slice.shares[local_].count * kFloatBytes);
      }
      DPIPE_CHECK(bytes <= room_.row_bytes) << bytes << " in a row of " << room_.row_bytes;
    }
  }

  // Returns the row of another rank of the node.
  float* RowOf(float* room, int local, int64_t chunk, size_t slice) const {
    return Row(room, local < local_ ? local : local - 1, chunk, slice);
  }
  float* SumRow(float* room, int64_t chunk, size_t slice) const {
    return Row(room, room_.num_rows - 1, chunk, slice);
  }
  float* ReturnBuffer(float* room, int64_t chunk, size_t slice) const {
    return room + room_.num_slots * room_.num_rows * row_floats_ + offsets_[chunk][slice];
  }

 private:
  float* Row(float* room, int64_t row, int64_t chunk, size_t slice) const {
    return room + (chunk % room_.num_slots * room_.num_rows + row) * row_floats_ +
           offsets_[chunk][slice];
  }

  const int local_;
  const ReductionBuffer room_;
  const int64_t row_floats_;
  std::vector<std::vector<int64_t>> offsets_;  // of a slice within a row, by chunk
};

// Enqueues one rank's part of a reduction. Chunk c, on node a of k:
//
//   at step   the group of transfers                        after it
//   c + a     exchange
//   c+a+1     receives the sum of the previous nodes        adds in order; on the last node, into
//                                                           place
//   c+a+2     sends its sum to the next node
//   c+2k-a-1  receives the whole sum from the next node
//   c+2k-a    sends it to the previous node, spreads it
//   c+k+1     reduce-scatter: last node to home             home adds it to its sums
class ReductionSteps {
 public:
  ReductionSteps(const NcclCall& call, const ExactReduction& reduction, float* room)
      : call_(call),
        reduction_(reduction),
        layout_(reduction.layout),
        place_(reduction),
        room_(room),
        node_(layout_.NodeOf(reduction.group.own.index)),
        local_(layout_.LocalOf(reduction.group.own.index)) {}

  absl::Status Enqueue() {
    const int64_t end = static_cast<int64_t>(reduction_.chunks.size()) + 2 * k();
    for (int64_t step = 0; step < end; ++step) {
      DPIPE_RETURN_IF_ERROR(Transfer(step));
      DPIPE_RETURN_IF_ERROR(AddInOrder(step - node_ - 1));
      if (scatters()) DPIPE_RETURN_IF_ERROR(AddReturned(step - k() - 1));
    }
    return absl::OkStatus();
  }

 private:
  int k() const { return layout_.num_nodes; }
  bool is_last() const { return node_ == k() - 1; }
  bool scatters() const { return !reduction_.sums.empty(); }
  int RankAt(int node, int local) const {
    return reduction_.group.ranks[layout_.MemberAt(node, local)];
  }

  const ElementRange& OwnOf(const Slice& slice) const { return slice.shares[local_]; }
  int64_t OwnBytes(const Slice& slice) const { return OwnOf(slice).count * kFloatBytes; }
  float* InTensor(const Slice& slice, const ElementRange& range) const {
    return reduction_.tensors[slice.tensor].data<float>() + range.begin;
  }
  float* OwnInTensor(const Slice& slice) const { return InTensor(slice, OwnOf(slice)); }
  // Returns a rank's share: this rank's in its tensor, another rank's in the row where it arrives.
  float* TermOf(int local, int64_t chunk, const Slice& slice, size_t s) const {
    return local == local_ ? OwnInTensor(slice) : place_.RowOf(room_, local, chunk, s);
  }
  // Returns the memory that receives the previous nodes' sum. This node also computes the sum that
  // it sends on there. On the first node the sum replaces the first term, unless that term is in a
  // tensor that must not be modified.
  float* Sum(int64_t chunk, const Slice& slice, size_t s) const {
    if (node_ > 0 || (local_ == 0 && scatters())) return place_.SumRow(room_, chunk, s);
    return TermOf(0, chunk, slice, s);
  }

  // Calls f(slice, index) for the slices of a chunk. Does nothing if there is no such chunk.
  template <typename F>
  absl::Status ForSlices(int64_t chunk, const F& f) const {
    if (chunk < 0 || chunk >= static_cast<int64_t>(reduction_.chunks.size())) {
      return absl::OkStatus();
    }
    const Chunk& slices = reduction_.chunks[chunk];
    for (size_t s = 0; s < slices.size(); ++s) DPIPE_RETURN_IF_ERROR(f(slices[s], s));
    return absl::OkStatus();
  }
  // Calls f(local) for the other ranks of this node.
  template <typename F>
  absl::Status ForNeighbours(const F& f) const {
    for (int local = 0; local < layout_.ranks_per_node; ++local) {
      if (local != local_) DPIPE_RETURN_IF_ERROR(f(local));
    }
    return absl::OkStatus();
  }

  // Enqueues a step's transfers. A pair of ranks makes its calls in the same order on both sides,
  // the order of the stages here.
  absl::Status Transfer(int64_t step) {
    return SettledGroup(call_, [&]() -> absl::Status {
      DPIPE_RETURN_IF_ERROR(Exchange(step - node_));
      if (node_ > 0) DPIPE_RETURN_IF_ERROR(ReceiveSumBefore(step - node_ - 1));
      if (!is_last()) DPIPE_RETURN_IF_ERROR(SendSum(step - node_ - 2));
      if (scatters()) return TransferHome(step - k() - 1);
      if (!is_last()) DPIPE_RETURN_IF_ERROR(ReceiveWhole(step - 2 * k() + node_ + 1));
      if (node_ > 0) DPIPE_RETURN_IF_ERROR(SendWhole(step - 2 * k() + node_));
      return Spread(step - 2 * k() + node_);
    });
  }

  absl::Status Exchange(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t s) {
      return ForNeighbours([&](int local) -> absl::Status {
        const int rank = RankAt(node_, local);
        const ElementRange& theirs = slice.shares[local];
        DPIPE_RETURN_IF_ERROR(
            SendBytes(call_, InTensor(slice, theirs), theirs.count * kFloatBytes, rank));
        return RecvBytes(call_, TermOf(local, chunk, slice, s), OwnBytes(slice), rank);
      });
    });
  }
  absl::Status ReceiveSumBefore(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t s) {
      return RecvBytes(call_, Sum(chunk, slice, s), OwnBytes(slice), RankAt(node_ - 1, local_));
    });
  }
  absl::Status SendSum(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t s) {
      return SendBytes(call_, Sum(chunk, slice, s), OwnBytes(slice), RankAt(node_ + 1, local_));
    });
  }
  absl::Status ReceiveWhole(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t) {
      return RecvBytes(call_, OwnInTensor(slice), OwnBytes(slice), RankAt(node_ + 1, local_));
    });
  }
  absl::Status SendWhole(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t) {
      return SendBytes(call_, OwnInTensor(slice), OwnBytes(slice), RankAt(node_ - 1, local_));
    });
  }
  absl::Status Spread(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t) {
      return ForNeighbours([&](int local) -> absl::Status {
        const int rank = RankAt(node_, local);
        const ElementRange& theirs = slice.shares[local];
        DPIPE_RETURN_IF_ERROR(SendBytes(call_, OwnInTensor(slice), OwnBytes(slice), rank));
        return RecvBytes(call_, InTensor(slice, theirs), theirs.count * kFloatBytes, rank);
      });
    });
  }
  absl::Status TransferHome(int64_t chunk) {
    return ForSlices(chunk, [&](const Slice& slice, size_t s) -> absl::Status {
      if (slice.home == k() - 1) return absl::OkStatus();
      if (is_last()) {
        return SendBytes(call_, Sum(chunk, slice, s), OwnBytes(slice), RankAt(slice.home, local_));
      }
      if (slice.home != node_) return absl::OkStatus();
      return RecvBytes(call_, place_.ReturnBuffer(room_, chunk, s), OwnBytes(slice),
                       RankAt(k() - 1, local_));
    });
  }

  absl::Status AddInOrder(int64_t chunk) {
    std::vector<OrderedSum> sums;
    DPIPE_RETURN_IF_ERROR(ForSlices(chunk, [&](const Slice& slice, size_t s) {
      const bool at_home = is_last() && slice.home == node_;
      OrderedSum sum = {nullptr, {}, OwnOf(slice).count, /*adds=*/at_home};
      if (node_ > 0) sum.terms.push_back(Sum(chunk, slice, s));
      for (int local = 0; local < layout_.ranks_per_node; ++local) {
        sum.terms.push_back(TermOf(local, chunk, slice, s));
      }
      if (at_home) {
        sum.sum = OwnInSums(slice);
      } else if (is_last() && !scatters()) {
        sum.sum = OwnInTensor(slice);
      } else {
        sum.sum = Sum(chunk, slice, s);
      }
      sums.push_back(std::move(sum));
      return absl::OkStatus();
    }));
    return call_.driver->AddUp(sums, call_.stream);
  }
  absl::Status AddReturned(int64_t chunk) {
    if (is_last()) return absl::OkStatus();
    std::vector<OrderedSum> sums;
    DPIPE_RETURN_IF_ERROR(ForSlices(chunk, [&](const Slice& slice, size_t s) {
      if (slice.home == node_) {
        const float* const landed = place_.ReturnBuffer(room_, chunk, s);
        sums.push_back({OwnInSums(slice), {landed}, OwnOf(slice).count, /*adds=*/true});
      }
      return absl::OkStatus();
    }));
    return call_.driver->AddUp(sums, call_.stream);
  }
  float* OwnInSums(const Slice& slice) const {
    const int64_t begin =
        reduction_.group.own.Begin(reduction_.tensors[slice.tensor].num_elements());
    return reduction_.sums[slice.tensor].data<float>() + OwnOf(slice).begin - begin;
  }

  const NcclCall& call_;
  const ExactReduction& reduction_;
  const NodeLayout layout_;
  const Room place_;
  float* const room_;
  const int node_, local_;
};

}  // namespace

ExactReduction AllReduceOf(RankGroup group, NodeLayout layout, int64_t chunk_bytes,
                           std::vector<Tensor> tensors) {
  std::vector<Chunk> chunks = AllReduceChunks(tensors, layout, chunk_bytes);
  return {std::move(group), layout, chunk_bytes, std::move(tensors), {}, std::move(chunks)};
}

ExactReduction ReduceScatterOf(RankGroup group, NodeLayout layout, int64_t chunk_bytes,
                               std::vector<Tensor> tensors, std::vector<Tensor> sums) {
  DPIPE_CHECK_EQ(tensors.size(), sums.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    DPIPE_CHECK_EQ(sums[i].num_elements(), group.own.Size(tensors[i].num_elements()));
  }
  std::vector<Chunk> chunks = ReduceScatterChunks(tensors, layout, chunk_bytes);
  return {std::move(group),   layout,          chunk_bytes,
          std::move(tensors), std::move(sums), std::move(chunks)};
}

int64_t RoomBytes(const ExactReduction& reduction) { return RoomOf(reduction).size_bytes(); }

absl::Status EnqueueReduction(const NcclCall& call, const ExactReduction& reduction,
                              const Tensor& room) {
  return ReductionSteps(call, reduction, room.data<float>()).Enqueue();
}

absl::Status EnqueueAllGather(const NcclCall& call, const RankGroup& group, NodeLayout layout,
                              absl::Span<const Tensor> shards, absl::Span<const Tensor> full) {
  const int node = layout.NodeOf(group.own.index), local = layout.LocalOf(group.own.index);
  // Sends the share of member `sent` of every tensor to member `with`, and receives that of member
  // `received` from it.
  const auto swap = [&](int sent, int received, int with) -> absl::Status {
    for (const Tensor& tensor : full) {
      const auto share = [&](int member) { return Shard{member, group.own.count}; };
      const int64_t n = tensor.num_elements();
      float* const data = tensor.data<float>();
      const int rank = group.ranks[with];
      DPIPE_RETURN_IF_ERROR(
          SendBytes(call, data + share(sent).Begin(n), share(sent).Size(n) * kFloatBytes, rank));
      DPIPE_RETURN_IF_ERROR(RecvBytes(call, data + share(received).Begin(n),
                                      share(received).Size(n) * kFloatBytes, rank));
    }
    return absl::OkStatus();
  };
  std::vector<OrderedSum> copies;
  for (size_t i = 0; i < full.size(); ++i) {
    const int64_t n = full[i].num_elements();
    DPIPE_CHECK_EQ(shards[i].num_elements(), group.own.Size(n));
    copies.push_back({full[i].data<float>() + group.own.Begin(n),
                      {shards[i].data<float>()},
                      shards[i].num_elements()});
  }
  DPIPE_RETURN_IF_ERROR(call.driver->AddUp(copies, call.stream));
  if (layout.num_nodes > 1) {
    DPIPE_RETURN_IF_ERROR(SettledGroup(call, [&]() -> absl::Status {
      for (int other = 0; other < layout.num_nodes; ++other) {
        if (other == node) continue;
        const int peer = layout.MemberAt(other, local);
        DPIPE_RETURN_IF_ERROR(swap(group.own.index, peer, peer));
      }
      return absl::OkStatus();
    }));
  }
  return SettledGroup(call, [&]() -> absl::Status {
    for (int other = 0; other < layout.ranks_per_node; ++other) {
      if (other == local) continue;
      for (int of = 0; of < layout.num_nodes; ++of) {
        DPIPE_RETURN_IF_ERROR(swap(layout.MemberAt(of, local), layout.MemberAt(of, other),
                                   layout.MemberAt(node, other)));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace dpipe

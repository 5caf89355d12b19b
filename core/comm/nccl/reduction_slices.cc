#include "core/comm/nccl/reduction_slices.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/shard.h"

namespace dpipe {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kAlignedFloats = kReductionAlignment / kFloatBytes;

// Returns part `shard.index` of n elements. Parts begin at aligned elements.
ElementRange AlignedPart(Shard shard, int64_t n) {
  const auto aligned = [&](int64_t element) {
    return element == n ? n : element / kAlignedFloats * kAlignedFloats;
  };
  const int64_t begin = aligned(shard.Begin(n));
  return {begin, aligned(shard.End(n)) - begin};
}

int64_t ElementsOf(const Slice& slice) {
  int64_t count = 0;
  for (const ElementRange& share : slice.shares) count += share.count;
  return count;
}

// Fills chunks one after another.
class ChunkBuilder {
 public:
  ChunkBuilder(absl::Span<const Tensor> tensors, NodeLayout layout, int64_t chunk_bytes)
      : chunk_bytes_(chunk_bytes),
        row_bytes_(ReductionBufferFor(layout, false, BytesOf(tensors), chunk_bytes).row_bytes),
        rows_(layout.ranks_per_node, 0) {}

  // Returns the number of slices that so many elements must be divided into.
  int NumParts(int64_t num_elements) const {
    return static_cast<int>((num_elements * kFloatBytes + chunk_bytes_ - 1) / chunk_bytes_);
  }
  void Add(Slice slice) {
    const int64_t bytes = ElementsOf(slice) * kFloatBytes;
    if (bytes == 0) return;
    if (chunks_.empty() || bytes_ + bytes > chunk_bytes_ || !RowsHold(slice)) {
      chunks_.emplace_back();
      bytes_ = 0;
      std::fill(rows_.begin(), rows_.end(), 0);
      DPIPE_CHECK(RowsHold(slice)) << "a slice of " << bytes << " bytes in rows of " << row_bytes_;
    }
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i] += RowBytesOf(slice.shares[i]);
    chunks_.back().push_back(std::move(slice));
    bytes_ += bytes;
  }
  std::vector<Chunk> Take() { return std::move(chunks_); }

 private:
  static int64_t RowBytesOf(const ElementRange& share) {
    return AlignedForReduction(share.count * kFloatBytes);
  }
  bool RowsHold(const Slice& slice) const {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] + RowBytesOf(slice.shares[i]) > row_bytes_) return false;
    }
    return true;
  }

  const int64_t chunk_bytes_, row_bytes_;
  std::vector<Chunk> chunks_;
  int64_t bytes_ = 0;          // of the last chunk
  std::vector<int64_t> rows_;  // of the last chunk, by rank of the node
};

}  // namespace

NodeLayout LayoutOf(const RankGroup& group, absl::Span<const int> nodes) {
  const int size = group.size();
  const NodeLayout one_node{1, size};
  if (nodes.empty()) return one_node;
  // First member of each node.
  std::vector<int> begins, seen;
  for (int member = 0; member < size; ++member) {
    const int node = nodes[group.ranks[member]];
    if (!seen.empty() && seen.back() == node) continue;
    if (std::find(seen.begin(), seen.end(), node) != seen.end()) return one_node;
    seen.push_back(node);
    begins.push_back(member);
  }
  const int num_nodes = static_cast<int>(begins.size());
  if (size % num_nodes != 0) return one_node;
  const NodeLayout layout{num_nodes, size / num_nodes};
  if (layout.ranks_per_node == 1) return one_node;
  for (int node = 0; node < num_nodes; ++node) {
    if (begins[node] != layout.MemberAt(node, 0)) return one_node;
  }
  return layout;
}

int64_t BytesOf(absl::Span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

std::vector<Chunk> AllReduceChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                   int64_t chunk_bytes) {
  ChunkBuilder chunks(tensors, layout, chunk_bytes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t n = tensors[i].num_elements();
    const int num_parts = chunks.NumParts(n);
    for (int part = 0; part < num_parts; ++part) {
      const ElementRange whole = AlignedPart({part, num_parts}, n);
      Slice slice{i, -1, {}};
      for (int local = 0; local < layout.ranks_per_node; ++local) {
        const ElementRange share = AlignedPart({local, layout.ranks_per_node}, whole.count);
        slice.shares.push_back({whole.begin + share.begin, share.count});
      }
      chunks.Add(std::move(slice));
    }
  }
  return chunks.Take();
}

std::vector<Chunk> ReduceScatterChunks(absl::Span<const Tensor> tensors, NodeLayout layout,
                                       int64_t chunk_bytes) {
  ChunkBuilder chunks(tensors, layout, chunk_bytes);
  const int size = layout.num_nodes * layout.ranks_per_node;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t n = tensors[i].num_elements();
    const int num_parts = chunks.NumParts((n + layout.num_nodes - 1) / layout.num_nodes);
    for (int home = 0; home < layout.num_nodes; ++home) {
      for (int part = 0; part < num_parts; ++part) {
        Slice slice{i, home, {}};
        for (int local = 0; local < layout.ranks_per_node; ++local) {
          const Shard rank{layout.MemberAt(home, local), size};
          const ElementRange share = AlignedPart({part, num_parts}, rank.Size(n));
          slice.shares.push_back({rank.Begin(n) + share.begin, share.count});
        }
        chunks.Add(std::move(slice));
      }
    }
  }
  return chunks.Take();
}

}  // namespace dpipe

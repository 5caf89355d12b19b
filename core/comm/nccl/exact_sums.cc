#include "core/comm/nccl/exact_sums.h"

#include "core/base/check.h"

namespace dpipe {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Of a share, as it lies in a buffer: kernels read it in pieces of 16 bytes.
int64_t AlignedBytes(int64_t count) { return (count * kFloatBytes + 15) / 16 * 16; }

// The elements of a tensor that are the share of one of the group.
struct Span {
  float* data;
  int64_t count;
  int64_t size_bytes() const { return count * kFloatBytes; }
};

Span ShareOf(const Tensor& tensor, Shard shard) {
  const int64_t n = tensor.num_elements();
  return {tensor.data<float>() + shard.Begin(n), shard.Size(n)};
}

Shard Of(const RankGroup& group, int member) { return {member, group.own.count}; }

// Where the share of `member`, another rank, arrives.
float* BufferOf(const RankGroup& group, const Tensor& buffer, int member) {
  const int row = member < group.own.index ? member : member - 1;
  return buffer.data<float>() + row * buffer.dim(1);
}

template <typename F>
absl::Status ForOthers(const RankGroup& group, const F& f) {
  for (int member = 0; member < group.own.count; ++member) {
    if (member != group.own.index) DPIPE_RETURN_IF_ERROR(f(member, group.ranks[member]));
  }
  return absl::OkStatus();
}

// Every rank sends every other one its share.
absl::Status ExchangeShares(const NcclCall& call, const RankGroup& group,
                            absl::Span<const Tensor> tensors, absl::Span<const Tensor> buffers) {
  return Grouped(call, [&]() -> absl::Status {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t own_bytes = ShareOf(tensors[i], group.own).size_bytes();
      DPIPE_RETURN_IF_ERROR(ForOthers(group, [&](int member, int rank) -> absl::Status {
        const Span theirs = ShareOf(tensors[i], Of(group, member));
        DPIPE_RETURN_IF_ERROR(SendBytes(call, theirs.data, theirs.size_bytes(), rank));
        return RecvBytes(call, BufferOf(group, buffers[i], member), own_bytes, rank);
      }));
    }
    return absl::OkStatus();
  });
}

// Adds up the shares in rank order, this rank's among them, into the first rank's place: `own` if
// that is this rank, else its buffer. Returns that place.
absl::StatusOr<float*> AddInOrder(const NcclCall& call, const RankGroup& group, float* own,
                                  const Tensor& buffer, int64_t count) {
  const auto place = [&](int member) {
    return member == group.own.index ? own : BufferOf(group, buffer, member);
  };
  for (int member = 1; member < group.own.count; ++member) {
    DPIPE_RETURN_IF_ERROR(
        call.driver->Accumulate(place(0), place(member), count, call.turn.stream));
  }
  return place(0);
}

// Every rank sends its own share to every other one.
absl::Status SpreadShares(const NcclCall& call, const RankGroup& group,
                          absl::Span<const Tensor> tensors) {
  return Grouped(call, [&]() -> absl::Status {
    for (const Tensor& tensor : tensors) {
      const Span own = ShareOf(tensor, group.own);
      DPIPE_RETURN_IF_ERROR(ForOthers(group, [&](int member, int rank) -> absl::Status {
        const Span theirs = ShareOf(tensor, Of(group, member));
        DPIPE_RETURN_IF_ERROR(SendBytes(call, own.data, own.size_bytes(), rank));
        return RecvBytes(call, theirs.data, theirs.size_bytes(), rank);
      }));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls) {
  const NcclApi& api = *call.api;
  DPIPE_RETURN_IF_ERROR(CommStream::ToStatus(api, api.ncclGroupStart(), "ncclGroupStart"));
  const absl::Status status = calls();
  const absl::Status ended = CommStream::ToStatus(api, api.ncclGroupEnd(), "ncclGroupEnd");
  DPIPE_RETURN_IF_ERROR(status);
  return ended;
}

absl::Status Grouped(const NcclCall& call, const std::function<absl::Status()>& calls) {
  DPIPE_RETURN_IF_ERROR(Group(call, calls));
  return call.turn.settle();
}

absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return CommStream::ToStatus(
      *call.api,
      call.api->ncclSend(data, size_bytes, ncclUint8, peer, call.turn.comm, call.turn.stream),
      "ncclSend");
}

absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer) {
  if (size_bytes == 0) return absl::OkStatus();
  return CommStream::ToStatus(
      *call.api,
      call.api->ncclRecv(data, size_bytes, ncclUint8, peer, call.turn.comm, call.turn.stream),
      "ncclRecv");
}

int64_t ShareBytes(const RankGroup& group, absl::Span<const Tensor> tensors, int rows) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += rows * AlignedBytes(group.own.Size(tensor.num_elements()));
  }
  return bytes;
}

std::vector<Tensor> ShareBuffers(const RankGroup& group, absl::Span<const Tensor> tensors, int rows,
                                 const Tensor& room) {
  std::vector<Tensor> buffers;
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t row = AlignedBytes(group.own.Size(tensor.num_elements())) / kFloatBytes;
    buffers.push_back(room.Slice(begin, begin + rows * row).Reshape({rows, row}));
    begin += rows * row;
  }
  return buffers;
}

absl::Status EnqueueAllReduce(const NcclCall& call, const RankGroup& group,
                              absl::Span<const Tensor> tensors, absl::Span<const Tensor> buffers) {
  DPIPE_RETURN_IF_ERROR(ExchangeShares(call, group, tensors, buffers));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Span own = ShareOf(tensors[i], group.own);
    if (own.count == 0) continue;
    DPIPE_ASSIGN_OR_RETURN(float* const sum,
                           AddInOrder(call, group, own.data, buffers[i], own.count));
    if (sum == own.data) continue;
    DPIPE_RETURN_IF_ERROR(call.driver->Copy(own.data, sum, own.size_bytes(), call.turn.stream));
  }
  return SpreadShares(call, group, tensors);
}

absl::Status EnqueueReduceScatter(const NcclCall& call, const RankGroup& group,
                                  absl::Span<const Tensor> full, absl::Span<const Tensor> buffers,
                                  absl::Span<const Tensor> sums) {
  DPIPE_RETURN_IF_ERROR(ExchangeShares(call, group, full, buffers));
  for (size_t i = 0; i < full.size(); ++i) {
    const Span own = ShareOf(full[i], group.own);
    DPIPE_CHECK_EQ(sums[i].num_elements(), own.count);
    if (own.count == 0) continue;
    // `full` stays as it is.
    float* const copy = buffers[i].data<float>() + (group.own.count - 1) * buffers[i].dim(1);
    DPIPE_RETURN_IF_ERROR(call.driver->Copy(copy, own.data, own.size_bytes(), call.turn.stream));
    DPIPE_ASSIGN_OR_RETURN(float* const sum, AddInOrder(call, group, copy, buffers[i], own.count));
    DPIPE_RETURN_IF_ERROR(
        call.driver->Accumulate(sums[i].data<float>(), sum, own.count, call.turn.stream));
  }
  return absl::OkStatus();
}

absl::Status EnqueueAllGather(const NcclCall& call, const RankGroup& group,
                              absl::Span<const Tensor> shards, absl::Span<const Tensor> full) {
  for (size_t i = 0; i < full.size(); ++i) {
    const Span own = ShareOf(full[i], group.own);
    DPIPE_CHECK_EQ(shards[i].num_elements(), own.count);
    if (own.count == 0) continue;
    DPIPE_RETURN_IF_ERROR(
        call.driver->Copy(own.data, shards[i].data<float>(), own.size_bytes(), call.turn.stream));
  }
  return SpreadShares(call, group, full);
}

}  // namespace dpipe

// Collectives made of NCCL's sends and receives, with sums in rank order.
#ifndef DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_
#define DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/contract.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// What an enqueued operation works with.
struct NcclCall {
  const NcclApi* api;
  cuda::Driver* driver;
  CommStream::Turn turn;
};

// Room for shares of `tensors`, `rows` of each: how many bytes of fp32, and buffers out of `room`,
// which has as many or more, one a tensor, [rows, share or a little more].
int64_t ShareBytes(const RankGroup& group, absl::Span<const Tensor> tensors, int rows);
std::vector<Tensor> ShareBuffers(const RankGroup& group, absl::Span<const Tensor> tensors, int rows,
                                 const Tensor& room);

// All of these enqueue on the call's stream; fp32. The sum of this rank's share of every tensor, in
// rank order: into the tensor itself (all reduce, which then sends it to all), or added to sums[i]
// (reduce and scatter). `buffers` have a row for each other rank; to reduce and scatter, one more.
absl::Status EnqueueAllReduce(const NcclCall& call, const RankGroup& group,
                              absl::Span<const Tensor> tensors, absl::Span<const Tensor> buffers);
absl::Status EnqueueReduceScatter(const NcclCall& call, const RankGroup& group,
                                  absl::Span<const Tensor> full, absl::Span<const Tensor> buffers,
                                  absl::Span<const Tensor> sums);
// Fills `full` from the ranks' shards.
absl::Status EnqueueAllGather(const NcclCall& call, const RankGroup& group,
                              absl::Span<const Tensor> shards, absl::Span<const Tensor> full);

// Calls between ncclGroupStart and ncclGroupEnd, which ends also after an error. They come to the
// stream when the turn's `settle` has returned; after Grouped they are there.
absl::Status Group(const NcclCall& call, const std::function<absl::Status()>& calls);
absl::Status Grouped(const NcclCall& call, const std::function<absl::Status()>& calls);
// Bytes of any kind.
absl::Status SendBytes(const NcclCall& call, const void* data, int64_t size_bytes, int peer);
absl::Status RecvBytes(const NcclCall& call, void* data, int64_t size_bytes, int peer);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_EXACT_SUMS_H_

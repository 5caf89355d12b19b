#include "core/comm/nccl/nccl_collectives.h"

#include <utility>

#include "core/base/check.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/reduction_slices.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {
namespace {

// The end of an operation on its stream, in its device's time.
class OperationEnd : public DeviceEvent {
 public:
  OperationEnd(cuda::CudaDevice* device, std::shared_ptr<CommEvent> event)
      : device_(device), event_(std::move(event)) {}
  bool done() const override { return device_->driver().Done(event_->get()).value_or(true); }
  Nanos time_ns() const override { return device_->TimeOf(event_->get()); }

 private:
  cuda::CudaDevice* const device_;
  const std::shared_ptr<CommEvent> event_;
};

// A collective of one rank has no end event: it ends where it begins.
class NcclCollective : public PendingCollective {
 public:
  NcclCollective(NcclFailure* failure, cuda::CudaDevice* device, std::string what,
                 std::shared_ptr<CommEvent> end)
      : failure_(*failure), device_(*device), what_(std::move(what)), end_(std::move(end)) {}

  // After it returns, work enqueued on the device waits for the end.
  absl::Status Wait() override {
    if (end_ != nullptr) {
      DPIPE_RETURN_IF_ERROR(failure_.StatusOf(what_));
      DPIPE_RETURN_IF_ERROR(end_->BlockDevice(device_));
    }
    waited_ = device_.RecordEvent();
    return absl::OkStatus();
  }
  Nanos end_ns() const override {
    device_.Synchronize().IgnoreError();
    return end()->time_ns();
  }
  std::shared_ptr<DeviceEvent> end() const override {
    if (end_ == nullptr) return waited_;
    return std::make_shared<OperationEnd>(&device_, end_);
  }

 private:
  NcclFailure& failure_;
  cuda::CudaDevice& device_;
  const std::string what_;
  const std::shared_ptr<CommEvent> end_;
  std::shared_ptr<DeviceEvent> waited_;
};

}  // namespace

NcclCollectives::NcclCollectives(Options options, CommStream* stream, NcclFailure* failure)
    : options_(std::move(options)),
      device_(cuda::CudaDeviceOf(*options_.device)),
      stream_(*stream),
      failure_(*failure) {}

absl::StatusOr<std::shared_ptr<CommEvent>> NcclCollectives::Enqueue(
    CommStream::Operation operation) {
  const std::string what = operation.what;
  DPIPE_RETURN_IF_ERROR(failure_.StatusOf(what));
  absl::StatusOr<std::shared_ptr<CommEvent>> end = stream_.Enqueue(std::move(operation));
  if (end.ok()) return end;
  return failure_.ReasonOf(what, end.status());
}

Communicator::StartedCollective NcclCollectives::Start(CommStream::Operation operation) {
  const std::string what = operation.what;
  DPIPE_ASSIGN_OR_RETURN(std::shared_ptr<CommEvent> end, Enqueue(std::move(operation)));
  return std::make_unique<NcclCollective>(&failure_, &device_, what, std::move(end));
}

int64_t NcclCollectives::ChunkBytes(NodeLayout layout) const {
  return options_.chunk_bytes > 0 ? options_.chunk_bytes : ReductionChunkBytes(layout.num_nodes);
}

// Grows the workspace if it is too small.
Tensor NcclCollectives::ReductionBuffer(int64_t size_bytes) {
  const int64_t count = size_bytes / static_cast<int64_t>(sizeof(float));
  if (!reduction_room_.has_value() || reduction_room_->num_elements() < count) {
    reduction_room_.reset();
    reduction_room_ = Tensor::Empty(options_.device, {count}, DType::kF32);
  }
  return *reduction_room_;
}

Communicator::StartedCollective NcclCollectives::StartReduction(ExactReduction reduction,
                                                                const std::string& what) {
  const Tensor room = ReductionBuffer(RoomBytes(reduction));
  CommStream::Operation operation{what, reduction.tensors};
  operation.tensors.insert(operation.tensors.end(), reduction.sums.begin(), reduction.sums.end());
  operation.tensors.push_back(room);
  operation.enqueue = [room, reduction = std::move(reduction)](const NcclCall& call) {
    return EnqueueReduction(call, reduction, room);
  };
  return Start(std::move(operation));
}

Communicator::StartedCollective NcclCollectives::StartAllReduceSum(absl::Span<const Rank> group,
                                                                   std::vector<Tensor> tensors,
                                                                   const std::string& what) {
  const RankGroup ranks = GroupOf(options_.rank, group, what);
  if (ranks.size() == 1) {
    return std::make_unique<NcclCollective>(&failure_, &device_, what, nullptr);
  }
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  return StartReduction(AllReduceOf(ranks, layout, ChunkBytes(layout), std::move(tensors)), what);
}

Communicator::StartedCollective NcclCollectives::StartReduceScatterSum(absl::Span<const Rank> group,
                                                                       std::vector<Tensor> full,
                                                                       std::vector<Tensor> shards,
                                                                       const std::string& what) {
  const RankGroup ranks = GroupOf(options_.rank, group, what);
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  return StartReduction(
      ReduceScatterOf(ranks, layout, ChunkBytes(layout), std::move(full), std::move(shards)), what);
}

Communicator::StartedCollective NcclCollectives::StartAllGather(absl::Span<const Rank> group,
                                                                std::vector<Tensor> shards,
                                                                std::vector<Tensor> full,
                                                                const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  const RankGroup ranks = GroupOf(options_.rank, group, what);
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  CommStream::Operation operation{what, full};
  operation.tensors.insert(operation.tensors.end(), shards.begin(), shards.end());
  operation.enqueue = [=](const NcclCall& call) {
    return EnqueueAllGather(call, ranks, layout, shards, full);
  };
  return Start(std::move(operation));
}

// Sends every rank's values to every rank, which adds them up itself. They are sent as bytes, in a
// tensor of int32.
absl::Status NcclCollectives::AllReduceSum(absl::Span<double> values, const std::string& what) {
  const int own = options_.rank.value(), size = options_.size;
  if (size == 1) return absl::OkStatus();
  const int64_t row_bytes = values.size() * sizeof(double);
  const Tensor rows =
      Tensor::Empty(options_.device, {size, 2 * static_cast<int64_t>(values.size())}, DType::kI32);
  const auto row = [&](int r) { return static_cast<char*>(rows.raw_data()) + r * row_bytes; };
  device_.CopyFromHost(row(own), values.data(), row_bytes);
  CommStream::Operation operation{what, {rows}};
  operation.enqueue = [&](const NcclCall& call) {
    return SettledGroup(call, [&]() -> absl::Status {
      for (int peer = 0; peer < size; ++peer) {
        if (peer == own) continue;
        DPIPE_RETURN_IF_ERROR(SendBytes(call, row(own), row_bytes, peer));
        DPIPE_RETURN_IF_ERROR(RecvBytes(call, row(peer), row_bytes, peer));
      }
      return absl::OkStatus();
    });
  };
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<CommEvent> end, Enqueue(std::move(operation)));
  DPIPE_RETURN_IF_ERROR(end->BlockDevice(device_));
  std::vector<double> all(values.size() * size);
  device_.CopyToHost(all.data(), rows.raw_data(), row_bytes * size);
  DPIPE_RETURN_IF_ERROR(failure_.StatusOf(what));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (int r = 0; r < size; ++r) values[i] += all[r * values.size() + i];
  }
  return absl::OkStatus();
}

}  // namespace dpipe

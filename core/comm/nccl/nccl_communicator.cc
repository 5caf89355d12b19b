#include "core/comm/nccl/nccl_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/message_runs.h"
#include "core/comm/nccl/nccl_collectives.h"
#include "core/comm/nccl/nccl_failure.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {
namespace {

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(NcclOptions options, RankStreams streams)
      : options_(std::move(options)),
        streams_(std::move(streams)),
        failure_(options_.rank, &cuda::CudaDeviceOf(*options_.device), &streams_, options_.peers),
        messages_(options_.rank, options_.device, &streams_, &failure_),
        collectives_(
            {options_.rank, options_.size, options_.device, options_.nodes, options_.chunk_bytes},
            streams_.collectives.get(), &failure_) {}

  // Waits until this rank's messages have arrived, unless the job fails. Afterwards NCCL's errors
  // are ignored, since a communicator that is gone is an error to its peers.
  ~NcclCommunicator() override {
    while (connected_ && failure_.status().ok() && !streams_.Idle()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    failure_.StopWatching();
    options_.peers->Leave();
    CommStream::AbortAll(streams_.all());
  }

  absl::Status Connect() {
    // First, so that a failure reported to this rank finds the communicators to abort.
    failure_.JoinPeers();
    const absl::Status connected = streams_.Connect(options_.ids, rank(), size());
    if (connected.ok()) {
      connected_ = true;
      failure_.Watch(options_.deadline);
      return absl::OkStatus();
    }
    const absl::Status reason = failure_.Reason(connected);
    const absl::Status status(reason.code(),
                              absl::StrCat("rank ", rank().value(), ", connecting to the other ",
                                           size() - 1, " ranks by NCCL: ", reason.message()));
    failure_.Fail(status);
    return status;
  }

  Rank rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), to, what));
    return messages_.Send(to, std::move(tensors), what);
  }
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), from, what));
    return messages_.PostRecv(from, specs, what);
  }
  absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) override;
  void BeginMessages() override { messages_.Begin(); }
  absl::Status EndMessages() override { return messages_.End(); }
  bool occupies_device() const override { return true; }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return collectives_.StartAllReduceSum(group, std::move(tensors), what);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    return collectives_.StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    return collectives_.StartReduceScatterSum(group, std::move(full), std::move(shards), what);
  }
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return collectives_.AllReduceSum(values, what);
  }

  void Abort(const absl::Status& status) override { failure_.Fail(status); }

 private:
  const NcclOptions options_;
  const RankStreams streams_;
  NcclFailure failure_;
  MessageRuns messages_;
  NcclCollectives collectives_;
  bool connected_ = false;
};

// Sends a message in each direction in which there will be one, all in a single run. NCCL connects
// all ranks of a group together, so ranks that reach their first messages one after another might
// wait for each other in a circle.
absl::Status NcclCommunicator::ExpectMessages(absl::Span<const Rank> to,
                                              absl::Span<const Rank> from) {
  const TensorSpec spec{{1}, DType::kF32};
  const Tensor nothing = Tensor::Zeros(options_.device, spec.shape, spec.dtype);
  BeginMessages();
  for (Rank peer : to) DPIPE_RETURN_IF_ERROR(Send(peer, 0, {nothing}, "the connection"));
  for (Rank peer : from) {
    DPIPE_RETURN_IF_ERROR(PostRecv(peer, 0, {spec}, "the connection").status());
  }
  return EndMessages();
}

absl::StatusOr<RankStreams> CreateStreams(const NcclOptions& options) {
  const cuda::Context& context = cuda::CudaDeviceOf(*options.device).context();
  if (context.green != nullptr && options.size > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.device->name(),
                     " is a virtual GPU: NCCL refuses two ranks on one GPU; ranks of one process "
                     "that share a GPU are connected by CreatePeerCommunicators"));
  }
  return RankStreams::Create(options.api, options.device, options.deadline);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(NcclOptions options) {
  DPIPE_CHECK(options.peers != nullptr);
  absl::StatusOr<RankStreams> streams = CreateStreams(options);
  if (!streams.ok()) {
    options.peers->Tell(streams.status());
    return streams.status();
  }
  auto communicator = std::make_unique<NcclCommunicator>(std::move(options), *std::move(streams));
  DPIPE_RETURN_IF_ERROR(communicator->Connect());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace dpipe

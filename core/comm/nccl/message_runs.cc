#include "core/comm/nccl/message_runs.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {
namespace {

class NcclRecv : public PendingRecv {
 public:
  // `end` is set when the run has ended.
  NcclRecv(NcclFailure* failure, const NcclMessage& message, std::shared_ptr<Device> device,
           std::shared_ptr<const std::shared_ptr<CommEvent>> end)
      : failure_(*failure),
        device_(std::move(device)),
        what_(message.what),
        tensors_(message.tensors),
        end_(std::move(end)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    DPIPE_RETURN_IF_ERROR(failure_.StatusOf(what_));
    if (*end_ == nullptr) {
      return failure_.WithRankPrefix(
          absl::FailedPreconditionError(absl::StrCat("has not posted ", what_)));
    }
    DPIPE_RETURN_IF_ERROR((*end_)->BlockDevice(cuda::CudaDeviceOf(*device_)));
    return std::move(tensors_);
  }

 private:
  NcclFailure& failure_;
  const std::shared_ptr<Device> device_;
  const std::string what_;
  std::vector<Tensor> tensors_;
  const std::shared_ptr<const std::shared_ptr<CommEvent>> end_;
};

}  // namespace

MessageRuns::MessageRuns(Rank rank, std::shared_ptr<Device> device, const RankStreams* streams,
                         NcclFailure* failure)
    : rank_(rank), device_(std::move(device)), streams_(*streams), failure_(*failure) {}

absl::Status MessageRuns::End() {
  in_run_ = false;
  return Post();
}

absl::Status MessageRuns::Send(Rank to, std::vector<Tensor> tensors, const std::string& what) {
  Add(rank_ < to ? &up_ : &down_,
      MessageTo(to.value(), absl::StrCat(what, " to rank ", to.value()), std::move(tensors)));
  return in_run_ ? absl::OkStatus() : Post();
}

absl::StatusOr<std::unique_ptr<PendingRecv>> MessageRuns::PostRecv(
    Rank from, const std::vector<TensorSpec>& specs, const std::string& what) {
  const Group& group = Add(
      from < rank_ ? &up_ : &down_,
      MessageFrom(from.value(), absl::StrCat(what, " from rank ", from.value()), specs, device_));
  std::unique_ptr<PendingRecv> pending =
      std::make_unique<NcclRecv>(&failure_, group.messages.back(), device_, group.end);
  if (!in_run_) DPIPE_RETURN_IF_ERROR(Post());
  return pending;
}

// Adds a message to a run. A second message from one rank to the same rank begins a new group, as
// in VerifyPlan.
MessageRuns::Group& MessageRuns::Add(std::vector<Group>* run, NcclMessage message) {
  const auto is_alike = [&](const NcclMessage& other) {
    return other.peer == message.peer && other.sends == message.sends;
  };
  if (run->empty() || absl::c_any_of(run->back().messages, is_alike)) run->emplace_back();
  run->back().messages.push_back(std::move(message));
  return run->back();
}

CommStream::Operation MessageRuns::OperationOf(const Group& group) {
  const auto name = [](std::string* out, const NcclMessage& message) { *out += message.what; };
  CommStream::Operation operation{absl::StrJoin(group.messages, " and ", name),
                                  TensorsOf(group.messages)};
  operation.enqueue = [messages = group.messages](const NcclCall& call) {
    return EnqueueMessages(call, messages);
  };
  operation.enqueue_after = [messages = group.messages](const NcclCall& call) {
    return EnqueueUnpacking(call, messages);
  };
  return operation;
}

absl::Status MessageRuns::Post() {
  const std::vector<Group> up = std::exchange(up_, {}), down = std::exchange(down_, {});
  for (size_t i = 0; i < std::max(up.size(), down.size()); ++i) {
    DPIPE_RETURN_IF_ERROR(
        PostGroups(i < up.size() ? &up[i] : nullptr, i < down.size() ? &down[i] : nullptr));
  }
  return absl::OkStatus();
}

// Calls both communicators before it waits for either, because ranks may have to answer on both
// before either can make progress.
absl::Status MessageRuns::PostGroups(const Group* up, const Group* down) {
  struct Part {
    CommStream* stream;
    const Group* group;
    std::string what;
    absl::Status posted;
  };
  std::vector<Part> parts;
  if (up != nullptr) parts.push_back({streams_.up.get(), up, "", {}});
  if (down != nullptr) parts.push_back({streams_.down.get(), down, "", {}});
  for (Part& part : parts) {
    CommStream::Operation operation = OperationOf(*part.group);
    part.what = operation.what;
    part.posted = failure_.StatusOf(part.what);
    if (part.posted.ok()) part.posted = part.stream->Post(std::move(operation));
  }
  absl::Status status;
  for (const Part& part : parts) {
    using End = absl::StatusOr<std::shared_ptr<CommEvent>>;
    End end = part.posted.ok() ? part.stream->Finish() : End(part.posted);
    if (end.ok()) {
      *part.group->end = *std::move(end);
    } else if (status.ok()) {
      status = failure_.ReasonOf(part.what, end.status());
    }
  }
  return status;
}

}  // namespace dpipe

#include "core/comm/nccl/message_runs.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/comm/communicator.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {

namespace {

// The same as that of allocations, so that a tensor within a whole is aligned like any other.
constexpr int64_t kAlignment = 512;

// Returns the offset in bytes of each tensor in the whole, followed by the whole's size.
std::vector<int64_t> Places(absl::Span<const TensorSpec> specs) {
  std::vector<int64_t> places = {0};
  for (const TensorSpec& spec : specs) {
    const int64_t size = spec.shape.num_elements() * SizeOf(spec.dtype);
    places.push_back((places.back() + size + kAlignment - 1) / kAlignment * kAlignment);
  }
  return places;
}

bool InOnePiece(absl::Span<const TensorSpec> specs) {
  const auto has_bytes = [](const TensorSpec& spec) { return spec.shape.num_elements() > 0; };
  return std::count_if(specs.begin(), specs.end(), has_bytes) <= 1;
}

bool OfOneType(absl::Span<const TensorSpec> specs) {
  const auto differs = [&](const TensorSpec& spec) { return spec.dtype != specs[0].dtype; };
  return std::none_of(specs.begin(), specs.end(), differs);
}

Tensor Whole(const std::shared_ptr<Device>& device, int64_t size_bytes, DType dtype) {
  return Tensor::Empty(device, {size_bytes / SizeOf(dtype)}, dtype);
}

// Copies all tensors into the whole, or out of it.
absl::Status CopyParts(const NcclCall& call, const NcclMessage& message, bool out) {
  const std::vector<int64_t> places = Places(SpecsOf(message.tensors));
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const Tensor& t = message.tensors[i];
    if (t.num_elements() == 0) continue;
    char* const part = static_cast<char*>(message.whole.raw_data()) + places[i];
    DPIPE_RETURN_IF_ERROR(call.driver->Copy(out ? t.raw_data() : part, out ? part : t.raw_data(),
                                            t.size_bytes(), call.stream));
  }
  return absl::OkStatus();
}

absl::Status Exchange(const NcclCall& call, const NcclMessage& message, const Tensor& t) {
  return message.sends ? SendBytes(call, t.raw_data(), t.size_bytes(), message.peer)
                       : RecvBytes(call, t.raw_data(), t.size_bytes(), message.peer);
}

}  // namespace

NcclMessage MessageTo(int peer, std::string what, std::vector<Tensor> tensors) {
  NcclMessage message{std::move(what), peer, /*sends=*/true, std::move(tensors), Tensor()};
  const std::vector<TensorSpec> specs = SpecsOf(message.tensors);
  if (InOnePiece(specs)) return message;
  message.whole = Whole(message.tensors[0].device(), Places(specs).back(), specs[0].dtype);
  message.copies = true;
  return message;
}

NcclMessage MessageFrom(int peer, std::string what, const std::vector<TensorSpec>& specs,
                        const std::shared_ptr<Device>& device) {
  NcclMessage message{std::move(what), peer, /*sends=*/false, {}, Tensor()};
  const std::vector<int64_t> places = Places(specs);
  const bool one_piece = InOnePiece(specs), one_type = OfOneType(specs);
  if (!one_piece) message.whole = Whole(device, places.back(), specs[0].dtype);
  message.copies = !one_piece && !one_type;
  for (size_t i = 0; i < specs.size(); ++i) {
    const int64_t count = specs[i].shape.num_elements();
    if (one_piece || !one_type || count == 0) {
      message.tensors.push_back(Tensor::Empty(device, specs[i].shape, specs[i].dtype));
      continue;
    }
    const int64_t begin = places[i] / SizeOf(specs[i].dtype);
    message.tensors.push_back(message.whole.Slice(begin, begin + count).Reshape(specs[i].shape));
  }
  return message;
}

std::vector<Tensor> TensorsOf(absl::Span<const NcclMessage> messages) {
  std::vector<Tensor> tensors;
  for (const NcclMessage& message : messages) {
    if (message.whole.defined()) tensors.push_back(message.whole);
    if (message.whole.defined() && !message.copies) continue;
    tensors.insert(tensors.end(), message.tensors.begin(), message.tensors.end());
  }
  return tensors;
}

absl::Status EnqueueMessages(const NcclCall& call, absl::Span<const NcclMessage> messages) {
  for (const NcclMessage& message : messages) {
    if (message.sends && message.copies) {
      DPIPE_RETURN_IF_ERROR(CopyParts(call, message, /*out=*/false));
    }
  }
  return Group(call, [&]() -> absl::Status {
    for (const NcclMessage& message : messages) {
      if (message.whole.defined()) {
        DPIPE_RETURN_IF_ERROR(Exchange(call, message, message.whole));
        continue;
      }
      for (const Tensor& t : message.tensors) {
        DPIPE_RETURN_IF_ERROR(Exchange(call, message, t));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status EnqueueUnpacking(const NcclCall& call, absl::Span<const NcclMessage> messages) {
  for (const NcclMessage& message : messages) {
    if (message.sends || !message.copies) continue;
    DPIPE_RETURN_IF_ERROR(CopyParts(call, message, /*out=*/true));
  }
  return absl::OkStatus();
}

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

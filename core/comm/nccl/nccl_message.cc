#include "core/comm/nccl/nccl_message.h"

#include <algorithm>
#include <utility>

#include "core/comm/contract.h"

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

}  // namespace dpipe

#include "core/comm/rendezvous/store_frame.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

std::string EncodeFrame(const StoreMessage& message) {
  const size_t size = message.ByteSizeLong();
  DPIPE_CHECK_LE(size, kMaxFrameBytes);
  std::string frame;
  frame.reserve(kLengthBytes + size);
  for (size_t i = 0; i < kLengthBytes; ++i) frame.push_back(static_cast<char>(size >> (8 * i)));
  message.AppendToString(&frame);
  return frame;
}

absl::StatusOr<std::optional<StoreMessage>> FrameReader::Next(uint32_t max_bytes) {
  if (buffer_.size() - taken_ < kLengthBytes) {
    buffer_.erase(0, std::exchange(taken_, 0));
    return std::optional<StoreMessage>();
  }
  uint32_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    size |= static_cast<uint32_t>(static_cast<uint8_t>(buffer_[taken_ + i])) << (8 * i);
  }
  if (size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", size, " bytes, of at most ", max_bytes));
  }
  if (buffer_.size() - taken_ < kLengthBytes + size) {
    buffer_.erase(0, std::exchange(taken_, 0));
    return std::optional<StoreMessage>();
  }
  StoreMessage message;
  if (!message.ParseFromArray(buffer_.data() + taken_ + kLengthBytes, static_cast<int>(size))) {
    return absl::InvalidArgumentError(
        absl::StrCat(size, " bytes that are no message of the store"));
  }
  taken_ += kLengthBytes + size;
  return std::optional<StoreMessage>(std::move(message));
}

}  // namespace dpipe

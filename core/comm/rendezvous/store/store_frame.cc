#include "core/comm/rendezvous/store/store_frame.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"
#include "core/comm/rendezvous/job_secret.h"

namespace dpipe {

namespace {

constexpr size_t kLengthBytes = 4;

std::string LittleEndian(uint64_t value, size_t num_bytes) {
  std::string bytes;
  for (size_t i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string Signature(const std::string& key, uint64_t number, absl::string_view message) {
  DPIPE_CHECK(!key.empty());
  return HmacSha256(HmacSha256(key, LittleEndian(number, sizeof(number))), message);
}

}  // namespace

std::string FrameWriter::Encode(const StoreMessage& message) {
  const size_t size = message.ByteSizeLong();
  DPIPE_CHECK_LE(size, kMaxFrameBytes);
  std::string frame;
  frame.reserve(kLengthBytes + size + kHmacBytes);
  frame += LittleEndian(size, kLengthBytes);
  message.AppendToString(&frame);
  frame += Signature(key_, num_written_++, absl::string_view(frame).substr(kLengthBytes, size));
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
        absl::StrCat("a message of ", size, " bytes; the maximum is ", max_bytes));
  }
  if (buffer_.size() - taken_ < kLengthBytes + size + kHmacBytes) {
    buffer_.erase(0, std::exchange(taken_, 0));
    return std::optional<StoreMessage>();
  }
  const auto bytes = absl::string_view(buffer_).substr(taken_ + kLengthBytes);
  const absl::string_view body = bytes.substr(0, size);
  if (!SameBytes(Signature(key_, num_read_++, body), bytes.substr(size, kHmacBytes))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of ", size, " bytes whose signature does not match the next message"));
  }
  StoreMessage message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(size))) {
    return absl::InvalidArgumentError(
        absl::StrCat(size, " bytes that are not a message of the store"));
  }
  taken_ += kLengthBytes + size + kHmacBytes;
  return std::optional<StoreMessage>(std::move(message));
}

namespace {

absl::string_view NameOf(StoreSide side) { return side == StoreSide::kStore ? "store" : "process"; }

}  // namespace

StoreChallenge::StoreChallenge(const JobSecret& secret, absl::string_view store_nonce,
                               absl::string_view process_nonce)
    : secret_(secret), nonces_(absl::StrCat(store_nonce, process_nonce)) {
  DPIPE_CHECK(!secret.empty());
  DPIPE_CHECK_EQ(store_nonce.size(), kNonceBytes);
  DPIPE_CHECK_EQ(process_nonce.size(), kNonceBytes);
}

// The signed texts differ in their prefixes, for any nonces.
std::string StoreChallenge::ProofOf(StoreSide side) const {
  return secret_.Sign(absl::StrCat("proof of the ", NameOf(side), ":", nonces_));
}

std::string StoreChallenge::KeyOf(StoreSide side) const {
  return secret_.Sign(absl::StrCat("key of the ", NameOf(side), ":", nonces_));
}

}  // namespace dpipe

// Encoding of the store's messages in a stream of bytes: a length of 4 bytes, little-endian, the
// message, then its signature of kHmacBytes.
//
// The signature is the HMAC-SHA256 of the message, by a key that is derived from the connection's
// key for this direction and the message's number. So a message that is altered, omitted, repeated
// or reordered ends the connection.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/comm/rendezvous/store_message.pb.h"

namespace dpipe {

// Maximum message size. The largest messages are a process's part of a trace, which grows with the
// run.
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

// Signs the messages of one direction, in the order in which they are sent.
class FrameWriter {
 public:
  FrameWriter() = default;  // cannot write
  explicit FrameWriter(std::string key) : key_(std::move(key)) {}
  // Returns the encoded message. It must have at most kMaxFrameBytes.
  std::string Encode(const StoreMessage& message);

 private:
  std::string key_;
  uint64_t num_written_ = 0;
};

// Decodes the messages of a stream that arrives in pieces.
class FrameReader {
 public:
  FrameReader() = default;  // cannot read
  explicit FrameReader(std::string key) : key_(std::move(key)) {}

  // Returns the buffer to which received bytes must be appended.
  std::string* buffer() { return &buffer_; }
  // Returns the next complete message, if any. Returns InvalidArgument if it is longer than
  // `max_bytes`, is malformed, or is not the one that the other side has signed as the next.
  absl::StatusOr<std::optional<StoreMessage>> Next(uint32_t max_bytes = kMaxFrameBytes);

 private:
  std::string key_;
  uint64_t num_read_ = 0;
  std::string buffer_;
  size_t taken_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_

// How messages of the store lie in a stream of bytes: a length of 4 bytes, little-endian, the
// message, then its signature of kHmacBytes.
//
// The signature is HMAC-SHA256 of the message by a key of its own, which is made from the
// connection's key for this direction and the message's number. So a message that is altered, left
// out, repeated or moved ends the connection.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/comm/rendezvous/store_message.pb.h"

namespace dpipe {

// The longest message. What grows with the run is a process's part of a trace.
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

// Signs the messages of one direction, in the order in which they are sent.
class FrameWriter {
 public:
  FrameWriter() = default;  // none can be written
  explicit FrameWriter(std::string key) : key_(std::move(key)) {}
  // The message has at most kMaxFrameBytes.
  std::string Encode(const StoreMessage& message);

 private:
  std::string key_;
  uint64_t num_written_ = 0;
};

// The messages of a stream that arrives in pieces.
class FrameReader {
 public:
  FrameReader() = default;  // none can be read
  explicit FrameReader(std::string key) : key_(std::move(key)) {}

  // Where received bytes are to be appended.
  std::string* buffer() { return &buffer_; }
  // The next whole message, or none. InvalidArgument if it is longer than `max_bytes`, or not the
  // one that the other side has signed as the next, or not a message.
  absl::StatusOr<std::optional<StoreMessage>> Next(uint32_t max_bytes = kMaxFrameBytes);

 private:
  std::string key_;
  uint64_t num_read_ = 0;
  std::string buffer_;
  size_t taken_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_

// How messages of the store lie in a stream of bytes: a length of 4 bytes, little-endian, then the
// message.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/comm/rendezvous/store_message.pb.h"

namespace dpipe {

// The longest message. What grows with the run is a process's part of a trace.
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

// The message is not longer than that.
std::string EncodeFrame(const StoreMessage& message);

// The messages of a stream that arrives in pieces.
class FrameReader {
 public:
  // Where received bytes are to be appended.
  std::string* buffer() { return &buffer_; }
  // The next whole message, or none. InvalidArgument where the bytes are no such message, or it is
  // longer than `max_bytes`.
  absl::StatusOr<std::optional<StoreMessage>> Next(uint32_t max_bytes = kMaxFrameBytes);

 private:
  std::string buffer_;
  size_t taken_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_FRAME_H_

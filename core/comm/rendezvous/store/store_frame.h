// What the two ends of a connection to the store agree on: heartbeats, frames, and the proof of the
// secret.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/running_clock.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/store_message.pb.h"

namespace dpipe {

// Timing of the heartbeats by which the two ends of a connection monitor each other.

// Maximum interval at which a thread checks the time.
inline constexpr absl::Duration kHeartbeatTick = absl::Milliseconds(50);

// Returns the interval: ten heartbeats fit into the permitted silence.
inline absl::Duration HeartbeatInterval(absl::Duration silence) {
  return std::min(silence / 10, absl::Seconds(1));
}

// Returns the clock by which both ends count time.
inline RunningClock HeartbeatClock() { return RunningClock(4 * kHeartbeatTick); }

// Encoding of the store's messages in a stream of bytes: a length of 4 bytes, little-endian, the
// message, then its signature of kHmacBytes.
//
// The signature is the HMAC-SHA256 of the message, by a key that is derived from the connection's
// key for this direction and the message's number. So a message that is altered, omitted, repeated
// or reordered ends the connection.

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

// Challenge by which a process and its job's store prove to each other that they know the job's
// secret, before any other data is exchanged.
//
//   store -> process   a random nonce                       kNonceBytes
//   process -> store   a random nonce, then its proof       kAnswerBytes
//   store -> process   its proof                            kHmacBytes
//
// A proof is HMAC-SHA256(secret, role || the store's nonce || the process's nonce). Each side draws
// a new nonce for each connection, so recorded data cannot be replayed. The roles differ, so
// neither side can be made to produce the other side's proof. The process proves itself first: a
// stranger gets only random bytes and a closed connection.
//
// Both sides sign every later message with a key that is specific to the connection and the
// direction. So a stranger between them can neither alter, add nor repeat
// messages, but can read them: nothing is encrypted.

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kAnswerBytes = kNonceBytes + kHmacBytes;

enum class StoreSide { kStore, kProcess };

class StoreChallenge {
 public:
  // Both nonces have kNonceBytes.
  StoreChallenge(const JobSecret& secret, absl::string_view store_nonce,
                 absl::string_view process_nonce);

  // Returns what `side` sends to prove itself.
  std::string ProofOf(StoreSide side) const;
  // Returns the key with which `side` signs its messages.
  std::string KeyOf(StoreSide side) const;

 private:
  const JobSecret secret_;
  const std::string nonces_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_FRAME_H_

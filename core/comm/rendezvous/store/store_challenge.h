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
// direction (store_frame.h). So a stranger between them can neither alter, add nor repeat
// messages, but can read them: nothing is encrypted.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CHALLENGE_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CHALLENGE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "core/comm/rendezvous/hmac.h"
#include "core/comm/rendezvous/job_secret.h"

namespace dpipe {

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

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_STORE_CHALLENGE_H_

// HMAC-SHA256 and random bytes, by libsodium.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_HMAC_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_HMAC_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

inline constexpr size_t kHmacBytes = 32;

// Returns kHmacBytes bytes. Thread-safe, also while the process exits.
std::string HmacSha256(absl::string_view key, absl::string_view text);

// True if both have the same bytes. Takes constant time for a given size.
bool SameBytes(absl::string_view a, absl::string_view b);

// Returns `count` cryptographically secure random bytes.
std::string RandomBytes(size_t count);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_HMAC_H_

#include "core/comm/rendezvous/hmac.h"

#include <sodium.h>

#include "core/base/check.h"

namespace dpipe {
namespace {

static_assert(kHmacBytes == crypto_auth_hmacsha256_BYTES);

void InitialiseSodium() {
  static const int state = sodium_init();  // -1 if it failed
  DPIPE_CHECK_GE(state, 0) << "libsodium cannot be used: the system has no random bytes";
}

const unsigned char* Unsigned(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  InitialiseSodium();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, Unsigned(key), key.size());
  crypto_auth_hmacsha256_update(&state, Unsigned(text), text.size());
  std::string mac(kHmacBytes, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(&mac[0]));
  sodium_memzero(&state, sizeof(state));
  return mac;
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t count) {
  InitialiseSodium();
  std::string bytes(count, '\0');
  randombytes_buf(&bytes[0], count);
  return bytes;
}

}  // namespace dpipe

#include "core/comm/rendezvous/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>

#include "core/base/check.h"

namespace dpipe {

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  // The store's thread may still run when exit() would take OpenSSL down.
  static const int ready = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  DPIPE_CHECK_EQ(ready, 1);
  std::string mac(kHmacBytes, '\0');
  unsigned int size = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(&mac[0]), &size);
  DPIPE_CHECK(made != nullptr && size == kHmacBytes) << "OpenSSL has no HMAC-SHA256";
  return mac;
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t count) {
  constexpr size_t kMaxAtOnce = 256;  // getrandom gives no fewer than asked for up to that
  DPIPE_CHECK_LE(count, kMaxAtOnce);
  std::string bytes(count, '\0');
  ssize_t got;
  do {
    got = getrandom(&bytes[0], count, 0);
  } while (got < 0 && errno == EINTR);
  DPIPE_CHECK_EQ(got, static_cast<ssize_t>(count)) << "the system has no random bytes";
  return bytes;
}

}  // namespace dpipe

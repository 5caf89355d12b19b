#include "core/comm/rendezvous/store/store_challenge.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
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

#include "data/fingerprint.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

uint64_t Rotate(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

// The finalizer of MurmurHash3: every bit of the result depends on every bit of the value.
uint64_t Spread(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccd;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53;
  return value ^ (value >> 33);
}

}  // namespace

// Mixes two lanes. Each is a bijection of its state for a given word, and each feeds the other.
void Fingerprint::Mix(uint64_t word) {
  a_ = Rotate(a_ ^ word, 29) * 0x9e3779b97f4a7c15 + b_;
  b_ = Rotate(b_ + word, 37) * 0xbf58476d1ce4e5b9 ^ a_;
}

Fingerprint& Fingerprint::Add(absl::string_view bytes) {
  Mix(bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(bytes.size(), sizeof(word));
    memcpy(&word, bytes.data(), count);  // x86-64 is little endian
    Mix(word);
    bytes.remove_prefix(count);
  }
  return *this;
}

Fingerprint& Fingerprint::AddNumber(int64_t value) {
  Mix(static_cast<uint64_t>(value));
  return *this;
}

std::string Fingerprint::ToString() const {
  return absl::StrFormat("%016x%016x", Spread(a_ + Rotate(b_, 17)), Spread(b_ ^ Rotate(a_, 41)));
}

}  // namespace dpipe

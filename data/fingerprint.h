// A 128-bit hash of all added inputs, in order.
#ifndef DPIPE_DATA_FINGERPRINT_H_
#define DPIPE_DATA_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// Two different inputs have the same fingerprint only by rare chance, but it is no protection
// against deliberate collisions. The same on every machine. Adding "ab", "c" differs from adding
// "a", "bc". Takes 8 bytes at a time, some gigabytes per second.
class Fingerprint {
 public:
  Fingerprint& Add(absl::string_view bytes);
  Fingerprint& AddNumber(int64_t value);
  // Returns 32 hexadecimal digits.
  std::string ToString() const;

 private:
  void Mix(uint64_t word);
  uint64_t a_ = 0x243f6a8885a308d3;  // pi's digits
  uint64_t b_ = 0x13198a2e03707344;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FINGERPRINT_H_

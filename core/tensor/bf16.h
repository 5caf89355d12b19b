// The element type bf16, free of includes that a device compiler need not read.
#ifndef DPIPE_CORE_TENSOR_BF16_H_
#define DPIPE_CORE_TENSOR_BF16_H_

#include <cstdint>
#include <cstring>

namespace dpipe {

// The upper half of an IEEE single: sign, 8 bits of exponent, 7 of fraction.
struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  // Rounds to nearest even; a NaN stays a (quiet) NaN.
  explicit Bf16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, sizeof(u));
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (u >> 16) | 0x40u;
    bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
  explicit operator float() const {
    const uint32_t u = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &u, sizeof(value));
    return value;
  }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_BF16_H_

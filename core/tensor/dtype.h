// Element types.
#ifndef DPIPE_CORE_TENSOR_DTYPE_H_
#define DPIPE_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

enum class DType { kF32, kBf16, kI32 };

int64_t SizeOf(DType dtype);               // bytes of one element
absl::string_view DTypeName(DType dtype);  // "fp32", "bf16", "int32"
// InvalidArgument names `name` and lists what there is.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// The upper half of an IEEE single: 8 bits of exponent, 7 of fraction.
struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  // Round to nearest even; a NaN stays a (quiet) NaN.
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

// The DType of a C++ element type.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::kBf16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DTYPE_H_

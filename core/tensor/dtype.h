// Element types.
#ifndef DPIPE_CORE_TENSOR_DTYPE_H_
#define DPIPE_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/tensor/bf16.h"

namespace dpipe {

enum class DType { kF32, kBf16, kI32 };

int64_t SizeOf(DType dtype);               // bytes per element
absl::string_view DTypeName(DType dtype);  // "fp32", "bf16", "int32"
// Parses the value of a program's --dtype, "fp32" or "bf16". InvalidArgument names the flag, its
// value and the two choices.
absl::StatusOr<DType> ParseComputeDType(absl::string_view name);

// Maps a C++ element type to its DType.
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

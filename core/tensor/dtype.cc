#include "core/tensor/dtype.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {

int64_t SizeOf(DType dtype) { return dtype == DType::kBf16 ? 2 : 4; }

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBf16:
      return "bf16";
    case DType::kI32:
      return "int32";
  }
  DPIPE_CHECK(false) << "unknown DType " << static_cast<int>(dtype);
  return "";
}

absl::StatusOr<DType> ParseComputeDType(absl::string_view name) {
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown --dtype=", name, "; expected fp32 or bf16"));
}

}  // namespace dpipe

#include "core/train/checkpoint/tensor_dtypes.h"

#include "core/base/check.h"

namespace dpipe {

std::string SafetensorsDtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kI32:
      return "I32";
  }
  DPIPE_CHECK(false) << "an element type without a name: " << static_cast<int>(dtype);
  return "";
}

}  // namespace dpipe

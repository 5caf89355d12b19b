// Element access for reference implementations, which compute in double for all element types.
#ifndef DPIPE_CORE_OPS_SUPPORT_REFERENCE_H_
#define DPIPE_CORE_OPS_SUPPORT_REFERENCE_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops::ref {

inline double Get(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kBf16:
      return static_cast<float>(t.data<Bf16>()[i]);
    case DType::kI32:
      return t.data<int32_t>()[i];
  }
  return 0;
}

inline void Put(const Tensor& t, int64_t i, double value) {
  if (t.dtype() == DType::kF32) {
    t.data<float>()[i] = static_cast<float>(value);
  } else {
    t.data<Bf16>()[i] = Bf16(static_cast<float>(value));
  }
}

}  // namespace dpipe::ops::ref

#endif  // DPIPE_CORE_OPS_SUPPORT_REFERENCE_H_

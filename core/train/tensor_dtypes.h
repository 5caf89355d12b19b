// Element types as safetensors files name them.
#ifndef DPIPE_CORE_TRAIN_TENSOR_DTYPES_H_
#define DPIPE_CORE_TRAIN_TENSOR_DTYPES_H_

#include <string>

#include "core/tensor/dtype.h"

namespace dpipe {

// "F32", "BF16", "I32".
std::string SafetensorsDtype(DType dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_TENSOR_DTYPES_H_

// Names of element types in safetensors files.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_TENSOR_DTYPES_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_TENSOR_DTYPES_H_

#include <string>

#include "core/tensor/dtype.h"

namespace dpipe {

// Returns "F32", "BF16" or "I32".
std::string SafetensorsDtype(DType dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_TENSOR_DTYPES_H_

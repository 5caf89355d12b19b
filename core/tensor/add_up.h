// Ordered sums of numbers in host memory.
#ifndef DPIPE_CORE_TENSOR_ADD_UP_H_
#define DPIPE_CORE_TENSOR_ADD_UP_H_

#include "core/tensor/ordered_sum.h"

namespace dpipe {

// Computes `sum`, reading all terms side by side in small blocks: memory delivers that faster than
// one term after another.
void AddUp(const OrderedSum& sum);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ADD_UP_H_

// Ordered sums of numbers in the host's memory.
#ifndef DPIPE_CORE_TENSOR_ADD_UP_H_
#define DPIPE_CORE_TENSOR_ADD_UP_H_

#include "core/tensor/ordered_sum.h"

namespace dpipe {

// All terms are read side by side, a few numbers at a time, which memory is faster at than at one
// term after another.
void AddUp(const OrderedSum& sum);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ADD_UP_H_

// Sums whose order of addition is part of what they are.
#ifndef DPIPE_CORE_TENSOR_ORDERED_SUM_H_
#define DPIPE_CORE_TENSOR_ORDERED_SUM_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace dpipe {

// sum = terms[0] + terms[1] + ..., from left to right, element by element in fp32. Of a single term
// the bits are copied. A term may be the sum itself; otherwise the two do not overlap.
struct OrderedSum {
  float* sum;
  absl::InlinedVector<const float*, 4> terms;  // at least one
  int64_t count;                               // elements of the sum, and of each term
  bool adds = false;                           // sum += (terms[0] + terms[1] + ...) instead
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ORDERED_SUM_H_

// Sums with a defined order of addition.
#ifndef DPIPE_CORE_TENSOR_ORDERED_SUM_H_
#define DPIPE_CORE_TENSOR_ORDERED_SUM_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace dpipe {

// sum = terms[0] + terms[1] + ..., from left to right, element by element in fp32. A single term is
// copied bit by bit. A term may be the sum itself; otherwise the two must not overlap.
struct OrderedSum {
  float* sum;
  absl::InlinedVector<const float*, 4> terms;  // at least one
  int64_t count;                               // elements of the sum, and of each term
  bool adds = false;                           // if set: sum += (terms[0] + terms[1] + ...)
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_ORDERED_SUM_H_

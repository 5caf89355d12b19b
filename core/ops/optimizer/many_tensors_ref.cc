#include "core/ops/optimizer/many_tensors_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  for (const AxpbyPair& pair : pairs) {
    for (int64_t i = 0; i < pair.y.num_elements(); ++i) {
      Put(pair.y, i, double{b} * Get(pair.y, i) + double{a} * Get(pair.x, i));
    }
  }
}

}  // namespace dpipe::ops::ref

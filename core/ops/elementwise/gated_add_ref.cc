#include <vector>

#include "core/ops/elementwise/gated_add_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index in the gates of h's element i.
int64_t GateOf(const Tensor& h, int64_t i) {
  const int64_t channels = h.dim(-1);
  return i / (h.num_elements() / h.dim(0)) * channels + i % channels;
}

}  // namespace

void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*y, i, Get(x, i) + Get(gate, GateOf(h, i)) * Get(h, i));
  }
}

void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy,
                       GatedAddGrads* grads) {
  std::vector<double> sums(gate.num_elements());
  for (int64_t i = 0; i < h.num_elements(); ++i) {
    const int64_t g = GateOf(h, i);
    Put(grads->dh, i, Get(dy, i) * Get(gate, g));
    sums[g] += Get(dy, i) * Get(h, i);
  }
  for (size_t g = 0; g < sums.size(); ++g) Put(grads->dgate, g, sums[g]);
}

}  // namespace dpipe::ops::ref

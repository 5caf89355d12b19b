#include <vector>

#include "core/ops/image/average_pool_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index in the small image's tensor of the square that contains element i of the large
// one's.
int64_t Square(int64_t i, const Shape& large) {
  const int64_t c = i % large[3];
  const int64_t w = i / large[3] % large[2];
  const int64_t h = i / (large[3] * large[2]) % large[1];
  const int64_t b = i / (large[3] * large[2] * large[1]);
  return ((b * (large[1] / 2) + h / 2) * (large[2] / 2) + w / 2) * large[3] + c;
}

}  // namespace

void AveragePool2xForward(const Tensor& x, Tensor* y) {
  std::vector<double> sums(y->num_elements());
  for (int64_t i = 0; i < x.num_elements(); ++i) sums[Square(i, x.shape())] += Get(x, i);
  for (int64_t i = 0; i < y->num_elements(); ++i) Put(*y, i, sums[i] / 4);
}

void AveragePool2xInputGrad(const Tensor& dy, Tensor* dx) {
  for (int64_t i = 0; i < dx->num_elements(); ++i) {
    Put(*dx, i, Get(dy, Square(i, dx->shape())) / 4);
  }
}

}  // namespace dpipe::ops::ref

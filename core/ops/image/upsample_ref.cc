#include <vector>

#include "core/ops/image/upsample_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index in the small image's tensor of the source of element i of the large one's.
int64_t Source(int64_t i, const Shape& large) {
  const int64_t c = i % large[3];
  const int64_t w = i / large[3] % large[2];
  const int64_t h = i / (large[3] * large[2]) % large[1];
  const int64_t b = i / (large[3] * large[2] * large[1]);
  return ((b * (large[1] / 2) + h / 2) * (large[2] / 2) + w / 2) * large[3] + c;
}

}  // namespace

void UpsampleNearest2xForward(const Tensor& x, Tensor* y) {
  for (int64_t i = 0; i < y->num_elements(); ++i) Put(*y, i, Get(x, Source(i, y->shape())));
}

void UpsampleNearest2xInputGrad(const Tensor& dy, Tensor* dx) {
  std::vector<double> sums(dx->num_elements());
  for (int64_t i = 0; i < dy.num_elements(); ++i) sums[Source(i, dy.shape())] += Get(dy, i);
  for (int64_t i = 0; i < dx->num_elements(); ++i) Put(*dx, i, sums[i]);
}

}  // namespace dpipe::ops::ref

#include <cmath>

#include "core/ops/embedding/rotary_embedding_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

double AngleOf(const RotaryParams& params, int64_t token, int64_t pair) {
  const int64_t image = token - params.text_tokens;
  if (image < 0) return 0;
  const int64_t ids[] = {0, image / params.image_columns, image % params.image_columns};
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t pairs = params.axes[axis] / 2;
    if (pair < pairs) return ids[axis] * std::pow(params.theta, -static_cast<double>(pair) / pairs);
    pair -= pairs;
  }
  return 0;
}

}  // namespace

void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y) {
  const int64_t width = x.dim(2), head = params.head_size();
  for (int64_t i = 0; i < x.num_elements(); i += 2) {
    const double angle = AngleOf(params, i / width % x.dim(1), i % head / 2);
    const double cosine = std::cos(angle), sine = inverse ? -std::sin(angle) : std::sin(angle);
    Put(*y, i, Get(x, i) * cosine - Get(x, i + 1) * sine);
    Put(*y, i + 1, Get(x, i + 1) * cosine + Get(x, i) * sine);
  }
}

}  // namespace dpipe::ops::ref

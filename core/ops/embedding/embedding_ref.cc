#include <cmath>
#include <vector>

#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y) {
  const int64_t tokens = ids.dim(1), channels = table.dim(1);
  for (int64_t i = 0; i < y->num_elements(); ++i) {
    const int64_t token = i / channels, c = i % channels;
    double value = Get(table, ids.data<int32_t>()[token] * channels + c);
    if (positions.defined()) value += Get(positions, token % tokens * channels + c);
    Put(*y, i, value);
  }
}

void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions) {
  const int64_t tokens = ids.dim(1), channels = dy.dim(2);
  const auto add = [&](Tensor* target, const auto& row_of) {
    std::vector<double> sums(target->num_elements());
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      sums[row_of(i / channels) * channels + i % channels] += Get(dy, i);
    }
    for (size_t i = 0; i < sums.size(); ++i) Put(*target, i, Get(*target, i) + sums[i]);
  };
  if (dtable != nullptr) {
    add(dtable, [&](int64_t token) { return int64_t{ids.data<int32_t>()[token]}; });
  }
  if (dpositions != nullptr) add(dpositions, [&](int64_t token) { return token % tokens; });
}

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

namespace dpipe::ops {

const EmbeddingKernels EmbeddingKernels::kReference = {
    ref::EmbeddingForward, ref::EmbeddingWeightGrad, ref::RotaryEmbedding};

}  // namespace dpipe::ops

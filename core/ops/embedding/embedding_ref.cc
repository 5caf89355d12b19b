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

}  // namespace dpipe::ops::ref

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/attention/attention_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Indices of one (sample, head) of queries and keys.
struct Head {
  Head(const AttentionParams& params, const Tensor& q, const Tensor& k, int64_t sample,
       int64_t head)
      : queries(q.dim(1)),
        keys(k.dim(1)),
        size(q.dim(2) / params.num_heads),
        width(q.dim(2)),
        first_query(sample * queries * width + head * size),
        first_key(sample * keys * width + head * size),
        first_bias((sample * params.num_heads + head) * (queries + keys - 1)) {}
  int64_t Query(int64_t i, int64_t c) const { return first_query + i * width + c; }
  int64_t Key(int64_t j, int64_t c) const { return first_key + j * width + c; }
  int64_t Bias(int64_t i, int64_t j) const { return first_bias + j - i + queries - 1; }

  int64_t queries, keys, size, width, first_query, first_key, first_bias;
};

// Row i of P.
std::vector<double> Probabilities(const AttentionParams& params, const Head& head, const Tensor& q,
                                  const Tensor& k, const Tensor& relative_bias, int64_t i) {
  const int64_t visible = params.causal ? i + 1 : head.keys;
  std::vector<double> p(head.keys, 0.0);
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < visible; ++j) {
    for (int64_t c = 0; c < head.size; ++c) {
      p[j] += Get(q, head.Query(i, c)) * Get(k, head.Key(j, c));
    }
    p[j] *= params.scale;
    if (relative_bias.defined()) p[j] += Get(relative_bias, head.Bias(i, j));
    largest = std::max(largest, p[j]);
  }
  for (int64_t j = 0; j < visible; ++j) sum += p[j] = std::exp(p[j] - largest);
  for (double& value : p) value /= sum;
  return p;
}

Tensor FromDoubles(const Tensor& like, const std::vector<double>& values) {
  Tensor t = Tensor::Empty(like.device(), like.shape(), like.dtype());
  for (int64_t i = 0; i < t.num_elements(); ++i) Put(t, i, values[i]);
  return t;
}

template <typename F>
void ForEachHead(const AttentionParams& params, const Tensor& q, const Tensor& k, const F& f) {
  for (int64_t sample = 0; sample < q.dim(0); ++sample) {
    for (int64_t head = 0; head < params.num_heads; ++head) f(Head(params, q, k, sample, head));
  }
}

}  // namespace

AttentionResult AttentionForward(const AttentionParams& params, const Tensor& q, const Tensor& k,
                                 const Tensor& v, bool keep_saved, const Tensor& relative_bias) {
  std::vector<double> y(q.num_elements(), 0.0);
  ForEachHead(params, q, k, [&](const Head& head) {
    for (int64_t i = 0; i < head.queries; ++i) {
      const std::vector<double> p = Probabilities(params, head, q, k, relative_bias, i);
      for (int64_t j = 0; j < head.keys; ++j) {
        for (int64_t c = 0; c < head.size; ++c)
          y[head.Query(i, c)] += p[j] * Get(v, head.Key(j, c));
      }
    }
  });
  return {FromDoubles(q, y),
          keep_saved ? Tensor::Zeros(q.device(), {q.dim(0)}, DType::kF32) : Tensor()};
}

AttentionGrads AttentionInputGrad(const AttentionParams& params, const Tensor& dy, const Tensor& q,
                                  const Tensor& k, const Tensor& v, const Tensor& relative_bias) {
  std::vector<double> dq(q.num_elements(), 0.0), dk(k.num_elements(), 0.0),
      dv(v.num_elements(), 0.0);
  std::vector<double> dbias(relative_bias.defined() ? relative_bias.num_elements() : 0, 0.0);
  ForEachHead(params, q, k, [&](const Head& head) {
    for (int64_t i = 0; i < head.queries; ++i) {
      const std::vector<double> p = Probabilities(params, head, q, k, relative_bias, i);
      std::vector<double> dp(head.keys, 0.0);
      double mean = 0;
      for (int64_t j = 0; j < head.keys; ++j) {
        for (int64_t c = 0; c < head.size; ++c) {
          dp[j] += Get(dy, head.Query(i, c)) * Get(v, head.Key(j, c));
          dv[head.Key(j, c)] += p[j] * Get(dy, head.Query(i, c));
        }
        mean += p[j] * dp[j];
      }
      for (int64_t j = 0; j < head.keys; ++j) {
        const double dscore = p[j] * (dp[j] - mean), ds = params.scale * dscore;
        if (!dbias.empty()) dbias[head.Bias(i, j)] += dscore;
        for (int64_t c = 0; c < head.size; ++c) {
          dq[head.Query(i, c)] += ds * Get(k, head.Key(j, c));
          dk[head.Key(j, c)] += ds * Get(q, head.Query(i, c));
        }
      }
    }
  });
  return {FromDoubles(q, dq), FromDoubles(k, dk), FromDoubles(v, dv),
          dbias.empty() ? Tensor() : FromDoubles(relative_bias, dbias)};
}

}  // namespace dpipe::ops::ref

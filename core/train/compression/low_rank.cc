#include "core/train/compression/low_rank.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {

namespace {

constexpr int kIterations = 3;

double Dot(const float* p, int64_t n, int64_t r, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(p[i * r + a]) * p[i * r + b];
  return sum;
}

}  // namespace

void Multiply(const float* m, int64_t n, int64_t k, const float* q, int64_t r, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    float* row = out + i * r;
    std::fill_n(row, r, 0.0f);
    for (int64_t j = 0; j < k; ++j) {
      const float value = m[i * k + j];
      for (int64_t c = 0; c < r; ++c) row[c] += value * q[j * r + c];
    }
  }
}

void MultiplyTransposed(const float* m, int64_t n, int64_t k, const float* p, int64_t r,
                        float* out) {
  std::fill_n(out, k * r, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const float value = m[i * k + j];
      for (int64_t c = 0; c < r; ++c) out[j * r + c] += value * p[i * r + c];
    }
  }
}

void MultiplyOuter(const float* p, int64_t n, const float* q, int64_t k, int64_t r, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      float sum = 0;
      for (int64_t c = 0; c < r; ++c) sum += p[i * r + c] * q[j * r + c];
      out[i * k + j] = sum;
    }
  }
}

void Orthonormalise(float* p, int64_t n, int64_t r) {
  for (int64_t c = 0; c < r; ++c) {
    const double before = std::sqrt(Dot(p, n, r, c, c));
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t d = 0; d < c; ++d) {
        const auto shadow = static_cast<float>(Dot(p, n, r, c, d));
        for (int64_t i = 0; i < n; ++i) p[i * r + c] -= shadow * p[i * r + d];
      }
    }
    const double norm = std::sqrt(Dot(p, n, r, c, c));
    const float scale = norm > 1e-6 * before ? static_cast<float>(1 / norm) : 0.0f;
    for (int64_t i = 0; i < n; ++i) p[i * r + c] *= scale;
  }
}

std::vector<double> LeadingSquaredSingularValues(const float* m, int64_t n, int64_t k, int count,
                                                 uint64_t seed) {
  const int64_t r = std::min<int64_t>({count, n, k});
  std::vector<float> q(k * r), p(n * r);
  RandomStream random(seed, n, static_cast<uint32_t>(k), RandomPurpose::kInit);
  for (float& x : q) x = random.NextNormal();
  for (int i = 0; i < kIterations; ++i) {
    Multiply(m, n, k, q.data(), r, p.data());
    Orthonormalise(p.data(), n, r);
    MultiplyTransposed(m, n, k, p.data(), r, q.data());
  }
  // m is approximately p q^T with orthonormal p, whose columns are close to singular vectors.
  std::vector<double> squares;
  for (int64_t c = 0; c < r; ++c) squares.push_back(Dot(q.data(), k, r, c, c));
  std::sort(squares.begin(), squares.end(), std::greater<>());
  return squares;
}

namespace {

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();

// Returns num_bins + 1 for an error above the budget or not finite.
int BinsOf(double error, double budget, int num_bins) {
  if (error <= 0) return 0;
  if (!std::isfinite(error) || !std::isfinite(budget)) return num_bins + 1;
  if (budget <= 0 || error > budget) return num_bins + 1;
  return static_cast<int>(std::ceil(error / budget * num_bins));
}

}  // namespace

std::vector<int> ChooseUnderBudget(const std::vector<std::vector<CompressionChoice>>& layers,
                                   double budget, const std::vector<int>& fallback, int num_bins) {
  DPIPE_CHECK_EQ(layers.size(), fallback.size());
  // min_size[b]: the minimum size of the layers so far whose errors take at most b bins.
  std::vector<int64_t> min_size(num_bins + 1, 0);
  std::vector<std::vector<int>> taken;  // by layer and bins
  for (const std::vector<CompressionChoice>& choices : layers) {
    std::vector<int64_t> next(num_bins + 1, kImpossible);
    std::vector<int>& choice_at = taken.emplace_back(num_bins + 1, -1);
    for (int c = 0; c < static_cast<int>(choices.size()); ++c) {
      const int bins = BinsOf(choices[c].error, budget, num_bins);
      for (int b = bins; b <= num_bins; ++b) {
        if (min_size[b - bins] == kImpossible) continue;
        const int64_t size = min_size[b - bins] + choices[c].size;
        if (size >= next[b]) continue;
        next[b] = size;
        choice_at[b] = c;
      }
    }
    min_size = std::move(next);
  }
  int64_t fallback_size = 0;
  for (size_t l = 0; l < layers.size(); ++l) fallback_size += layers[l][fallback[l]].size;
  if (min_size[num_bins] >= fallback_size) return fallback;
  std::vector<int> result(layers.size());
  int b = num_bins;
  for (int l = static_cast<int>(layers.size()) - 1; l >= 0; --l) {
    result[l] = taken[l][b];
    b -= BinsOf(layers[l][result[l]].error, budget, num_bins);
  }
  return result;
}

}  // namespace dpipe

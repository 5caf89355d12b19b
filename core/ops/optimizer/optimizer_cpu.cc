#include <algorithm>
#include <numeric>
#include <vector>

#include "core/ops/optimizer/optimizer_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/row_sum.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {

DPIPE_VECTOR_CLONES void AdamWRun(AdamWFactors f, const float* __restrict grad,
                                  float* __restrict parameter, float* __restrict m,
                                  float* __restrict v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = f.grad_scale * grad[i];
    const float mi = m[i] + f.one_minus_beta1 * (g - m[i]);
    const float vi = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    const float denominator = __builtin_sqrtf(vi) * f.inverse_sqrt_bias2 + f.eps;
    m[i] = mi;
    v[i] = vi;
    parameter[i] = f.decay * parameter[i] - f.step_size * (mi / denominator);
  }
}

DPIPE_VECTOR_CLONES void PredictRun(AdamWFactors f, const float* __restrict m,
                                    const float* __restrict v, float* __restrict parameter,
                                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float denominator = __builtin_sqrtf(v[i]) * f.inverse_sqrt_bias2 + f.eps;
    parameter[i] = f.decay * parameter[i] - f.step_size * (m[i] / denominator);
  }
}

// Squares of floats are exact in double. 16 partial sums, added pairwise.
DPIPE_VECTOR_CLONES double SquaresRun(const float* x, int64_t n) {
  constexpr int kLanes = 16;
  double partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) partial[j] += double{x[i + j]} * double{x[i + j]};
  }
  for (int j = 0; i + j < n; ++j) partial[j] += double{x[i + j]} * double{x[i + j]};
  return FoldPairs<kLanes / 2>(partial);
}

void AdamWStep(const AdamWTask& task) {
  const float* const grad = task.grad.data<float>();
  float* const parameter = task.parameter.data<float>();
  float *const m = task.m.data<float>(), *const v = task.v.data<float>();
  ParallelRuns(*task.grad.device(), task.grad.num_elements(), [&](int64_t begin, int64_t end) {
    AdamWRun(task.factors, grad + begin, parameter + begin, m + begin, v + begin, end - begin);
  });
}

void PredictOne(const AdamWFactors& factors, const AdamWPrediction& prediction) {
  const float *m = prediction.m.data<float>(), *v = prediction.v.data<float>();
  float* parameter = prediction.parameter.data<float>();
  ParallelRuns(*prediction.parameter.device(), prediction.parameter.num_elements(),
               [&](int64_t begin, int64_t end) {
                 PredictRun(factors, m + begin, v + begin, parameter + begin, end - begin);
               });
}

DPIPE_VECTOR_CLONES void SquareRun(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= x[i];
}
DPIPE_VECTOR_CLONES void RootRun(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = __builtin_sqrtf(x[i]);
}

void AdamWInt8Step(const AdamWInt8Task& task) {
  const int64_t block_size = task.m->block_size(), n = task.grad.num_elements();
  const float* grad = task.grad.data<float>();
  float* parameter = task.parameter.data<float>();
  const auto update = [&](int64_t block, float* m, float* v) {
    const int64_t begin = block * block_size, count = std::min(block_size, n - begin);
    uint8_t *m_codes = task.m->codes() + begin, *root_codes = task.root_v->codes() + begin;
    float &m_scale = task.m->scales()[block], &root_scale = task.root_v->scales()[block];
    DequantizeBlock(kSignedCodes, m_codes, m_scale, count, m);
    DequantizeBlock(kUnsignedCodes, root_codes, root_scale, count, v);
    SquareRun(v, count);
    AdamWRun(task.factors, grad + begin, parameter + begin, m, v, count);
    RootRun(v, count);
    m_scale = QuantizeBlock(kSignedCodes, m, count, m_codes);
    root_scale = QuantizeBlock(kUnsignedCodes, v, count, root_codes);
  };
  const int64_t blocks_of_run = std::max<int64_t>(1, 16384 / block_size);
  const int64_t runs = (task.m->num_blocks() + blocks_of_run - 1) / blocks_of_run;
  ParallelFor(*task.grad.device(), runs, [&](int64_t run) {
    std::vector<float> m(block_size), v(block_size);
    const int64_t end = std::min((run + 1) * blocks_of_run, task.m->num_blocks());
    for (int64_t b = run * blocks_of_run; b < end; ++b) update(b, m.data(), v.data());
  });
}

// Blocks do not depend on the number of threads, and are added in order.
double SumOfSquares(const Tensor& x) {
  constexpr int64_t kBlock = 16384;
  const int64_t n = x.num_elements(), num_blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(num_blocks);
  const float* data = x.data<float>();
  ParallelFor(*x.device(), num_blocks, [&](int64_t i) {
    sums[i] = SquaresRun(data + i * kBlock, std::min(kBlock, n - i * kBlock));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

DPIPE_VECTOR_CLONES void AxpbyRun(float a, float b, const float* __restrict x, float* __restrict y,
                                  int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = b * y[i] + a * x[i];
}

void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  for (const AxpbyPair& pair : pairs) {
    const float* x = pair.x.data<float>();
    float* y = pair.y.data<float>();
    ParallelRuns(*pair.y.device(), pair.y.num_elements(), [&](int64_t begin, int64_t end) {
      AxpbyRun(a, b, x + begin, y + begin, end - begin);
    });
  }
}

void AdamWSteps(const std::vector<AdamWTask>& tasks) {
  for (const AdamWTask& task : tasks) AdamWStep(task);
}

void AdamWPredict(const AdamWFactors& factors, absl::Span<const AdamWPrediction> predictions) {
  for (const AdamWPrediction& prediction : predictions) PredictOne(factors, prediction);
}

void AdamWInt8Steps(const std::vector<AdamWInt8Task>& tasks) {
  for (const AdamWInt8Task& task : tasks) AdamWInt8Step(task);
}

void SumsOfSquares(absl::Span<const Tensor> tensors, std::vector<double>* sums) {
  for (const Tensor& x : tensors) sums->push_back(SumOfSquares(x));
}

}  // namespace dpipe::ops::cpu

namespace dpipe::ops {

const OptimizerKernels OptimizerKernels::kCpu = {
    cpu::AdamWSteps, cpu::AdamWPredict, cpu::AdamWInt8Steps, cpu::SumsOfSquares, cpu::Axpby};

}  // namespace dpipe::ops

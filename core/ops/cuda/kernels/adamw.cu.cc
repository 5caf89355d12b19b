#include "core/ops/cuda/kernels/adamw.h"

#include <cmath>

#include "core/ops/cuda/kernels/adamw_arithmetic.h"
#include "core/ops/cuda/kernels/pack.h"
#include "core/ops/cuda/kernels/reduce.h"
#include "core/ops/cuda/kernels/tensor_list.h"

namespace dpipe::ops::cuda {
namespace {

struct UpdateAll {
  TensorList<AdamWTensor, kAdamWTensors> all;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    OnPackOf(all,
             [](const AdamWTensor& tensor, int64_t i, int count) { Update(tensor, i, count); });
  }

  static DPIPE_KERNEL_FUNCTION void Update(const AdamWTensor& tensor, int64_t i, int count) {
    const Pack<float> grad = LoadPack(tensor.grad + i, count);
    Pack<float> p = LoadPack(tensor.parameter + i, count), m = LoadPack(tensor.m + i, count);
    Pack<float> v = LoadPack(tensor.v + i, count);
    for (int j = 0; j < kPack<float>; ++j) {
      UpdateMoments(tensor.factors, grad.v[j], &m.v[j], &v.v[j]);
      p.v[j] = Updated(tensor.factors, p.v[j], m.v[j], sqrtf(v.v[j]));
    }
    StorePack(tensor.parameter + i, count, p);
    StorePack(tensor.m + i, count, m);
    StorePack(tensor.v + i, count, v);
  }
};

struct PredictAll {
  TensorList<AdamWPredictTensor, kAdamWPredictTensors> all;
  AdamWFactors factors;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    OnPackOf(all, [this](const AdamWPredictTensor& tensor, int64_t i, int count) {
      const Pack<float> m = LoadPack(tensor.m + i, count), v = LoadPack(tensor.v + i, count);
      Pack<float> p = LoadPack(tensor.parameter + i, count);
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
        p.v[j] = Updated(factors, p.v[j], m.v[j], sqrtf(v.v[j]));
      }
      StorePack(tensor.parameter + i, count, p);
    });
  }
};

// Elements per block: 4 packs per thread.
constexpr int kSquaresPacks = 4;
constexpr int64_t kSquaresRun = kSquaresPacks * kPack<float> * kThreads;

using SquaresTensors = TensorList<SquaresTensor, kSquaresTensors>;

// One block per run of a tensor. Squares of fp32 numbers are exact in double.
struct SquaresOfRuns {
  SquaresTensors all;
  double* partial;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int t = all.Here();
    const SquaresTensor& tensor = all.tensors[t];
    const int64_t begin = int64_t{Block() - all.FirstBlock(t)} * kSquaresRun;
    Pack<float> packs[kSquaresPacks];
    DPIPE_UNROLL for (int p = 0; p < kSquaresPacks; ++p) {
      const int64_t i = begin + (p * int64_t{kThreads} + Thread()) * kPack<float>;
      packs[p] = LoadPack(tensor.x + i, i < tensor.size ? PackCount<float>(tensor.size, i) : 0);
    }
    double sum = 0;
    DPIPE_UNROLL for (int p = 0; p < kSquaresPacks; ++p) {
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
        sum += double{packs[p].v[j]} * double{packs[p].v[j]};
      }
    }
    sum = BlockSum(sum);
    if (Thread() == 0) partial[Block()] = sum;
  }
};

// One block per tensor.
struct SumsOfRuns {
  SquaresTensors all;
  const double* partial;
  double* sums;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int t = static_cast<int>(Block());
    double sum = 0;
    for (uint32_t b = all.FirstBlock(t) + Thread(); b < all.end_blocks[t]; b += kThreads) {
      sum += partial[b];
    }
    sum = BlockSum(sum);
    if (Thread() == 0) sums[t] = sum;
  }
};

}  // namespace

void UpdateAdamW(const Stream& stream, const AdamWTensor* tensors, int count) {
  UpdateAll kernel = {};
  kernel.all.DividePacks(tensors, count);
  Launch(stream, kernel.all.blocks(), kernel);
}

void PredictAdamW(const Stream& stream, const AdamWFactors& factors,
                  const AdamWPredictTensor* tensors, int count) {
  PredictAll kernel = {{}, factors};
  kernel.all.DividePacks(tensors, count);
  Launch(stream, kernel.all.blocks(), kernel);
}

int64_t SquaresPartials(int64_t size) { return (size + kSquaresRun - 1) / kSquaresRun; }

void SumSquares(const Stream& stream, const SquaresTensor* tensors, int count, double* partial,
                double* sums) {
  SquaresTensors all = {};
  all.Divide(tensors, count, [](const SquaresTensor& tensor) {
    return static_cast<uint32_t>(SquaresPartials(tensor.size));
  });
  Launch(stream, all.blocks(), SquaresOfRuns{all, partial});
  Launch(stream, static_cast<uint32_t>(count), SumsOfRuns{all, partial, sums});
}

}  // namespace dpipe::ops::cuda

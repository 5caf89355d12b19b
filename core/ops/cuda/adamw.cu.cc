#include "core/ops/cuda/adamw.h"

#include <cmath>

#include "core/ops/cuda/pack.h"
#include "core/ops/cuda/reduce.h"

namespace dpipe::ops::cuda {
namespace {

// Tensors whose blocks follow each other.
template <typename Entry, int kCount>
struct ManyTensors {
  Entry tensors[kCount];
  uint32_t end_blocks[kCount];  // of each tensor's blocks; the last ones may have none

  // Gives each of the first `count` tensors blocks_of(size) blocks.
  template <typename BlocksOf>
  void Divide(const Entry* first, int count, const BlocksOf& blocks_of) {
    DPIPE_CHECK(count >= 0 && count <= kCount) << count << " tensors";
    uint32_t blocks = 0;
    for (int t = 0; t < kCount; ++t) {
      tensors[t] = t < count ? first[t] : Entry{};
      if (t < count) blocks += blocks_of(first[t].size);
      end_blocks[t] = blocks;
    }
  }
  uint32_t blocks() const { return end_blocks[kCount - 1]; }

  DPIPE_KERNEL_FUNCTION uint32_t FirstBlock(int t) const { return t == 0 ? 0 : end_blocks[t - 1]; }
  // The tensor of this block.
  DPIPE_KERNEL_FUNCTION int Here() const {
    int low = 0, high = kCount - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (end_blocks[middle] <= Block()) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

struct UpdateAll {
  ManyTensors<AdamWTensor, kAdamWTensors> all;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int t = all.Here();
    const AdamWTensor& tensor = all.tensors[t];
    const int64_t i = (int64_t{Block() - all.FirstBlock(t)} * kThreads + Thread()) * kPack<float>;
    if (i < tensor.size) Update(tensor, i, PackCount<float>(tensor.size, i));
  }

  static DPIPE_KERNEL_FUNCTION void Update(const AdamWTensor& tensor, int64_t i, int count) {
    const AdamWFactors& f = tensor.factors;
    const Pack<float> grad = LoadPack(tensor.grad + i, count);
    Pack<float> p = LoadPack(tensor.parameter + i, count), m = LoadPack(tensor.m + i, count);
    Pack<float> v = LoadPack(tensor.v + i, count);
    for (int j = 0; j < kPack<float>; ++j) {
      const float g = f.grad_scale * grad.v[j];
      m.v[j] = m.v[j] + f.one_minus_beta1 * (g - m.v[j]);
      v.v[j] = f.beta2 * v.v[j] + f.one_minus_beta2 * (g * g);
      const float denominator = sqrtf(v.v[j]) * f.inverse_sqrt_bias2 + f.eps;
      p.v[j] = f.decay * p.v[j] - f.step_size * (m.v[j] / denominator);
    }
    StorePack(tensor.parameter + i, count, p);
    StorePack(tensor.m + i, count, m);
    StorePack(tensor.v + i, count, v);
  }
};

// A block's elements: 4 packs for each thread.
constexpr int kSquaresPacks = 4;
constexpr int64_t kSquaresRun = kSquaresPacks * kPack<float> * kThreads;

using SquaresTensors = ManyTensors<SquaresTensor, kSquaresTensors>;

// A block a run of a tensor. Squares of fp32 numbers are exact in double.
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

// A block a tensor.
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
  kernel.all.Divide(tensors, count, [](int64_t size) { return BlocksFor(Packs<float>(size)); });
  Launch(stream, kernel.all.blocks(), kernel);
}

int64_t SquaresPartials(int64_t size) { return (size + kSquaresRun - 1) / kSquaresRun; }

void SumSquares(const Stream& stream, const SquaresTensor* tensors, int count, double* partial,
                double* sums) {
  SquaresTensors all = {};
  all.Divide(tensors, count,
             [](int64_t size) { return static_cast<uint32_t>(SquaresPartials(size)); });
  Launch(stream, all.blocks(), SquaresOfRuns{all, partial});
  Launch(stream, static_cast<uint32_t>(count), SumsOfRuns{all, partial, sums});
}

}  // namespace dpipe::ops::cuda

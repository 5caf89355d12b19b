#include "core/ops/cuda/kernels/optimizer.h"

#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/pack.h"
#include "core/ops/cuda/kernels/tensor_list.h"
#include "core/ops/optimizer/quantization_codes.h"

namespace dpipe::ops::cuda {
namespace {

// AdamW's arithmetic on one number.
DPIPE_KERNEL_FUNCTION void UpdateMoments(const AdamWFactors& f, float grad, float* m, float* v) {
  const float g = f.grad_scale * grad;
  *m = *m + f.one_minus_beta1 * (g - *m);
  *v = f.beta2 * *v + f.one_minus_beta2 * (g * g);
}

// Returns the updated parameter from its new moments: m and the root of v.
DPIPE_KERNEL_FUNCTION float Updated(const AdamWFactors& f, float parameter, float m, float root_v) {
  const float denominator = root_v * f.inverse_sqrt_bias2 + f.eps;
  return f.decay * parameter - f.step_size * (m / denominator);
}

struct UpdateAll {
  TensorList<AdamWTensor, kAdamWTensors> all;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPackOf(
        all, [](const AdamWTensor& tensor, int64_t i, int count) { Update(tensor, i, count); });
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
    ForEachPackOf(all, [this](const AdamWPredictTensor& tensor, int64_t i, int count) {
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

namespace {

// AdamW with 8-bit moments.

#if defined(__CUDACC__)
__device__ const QuantizationCodes kSignedOnGpu(/*is_signed=*/true);
__device__ const QuantizationCodes kUnsignedOnGpu(/*is_signed=*/false);
#endif
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ const QuantizationCodes& Signed() { return kSignedOnGpu; }
__device__ __forceinline__ const QuantizationCodes& Unsigned() { return kUnsignedOnGpu; }
#else
DPIPE_KERNEL_FUNCTION const QuantizationCodes& Signed() { return kSignedCodes; }
DPIPE_KERNEL_FUNCTION const QuantizationCodes& Unsigned() { return kUnsignedCodes; }
#endif

// The codes of a pack of fp32 numbers.
struct Codes {
  uint8_t c[kPack<float>];
};

DPIPE_KERNEL_FUNCTION bool AreWords(const uint8_t* p, int count) {
  return count == kPack<float> && (reinterpret_cast<uintptr_t>(p) & 3u) == 0;
}
// Loads the first `count` codes; the others are set to `missing`.
DPIPE_KERNEL_FUNCTION Codes LoadCodes(const uint8_t* p, int count, int missing) {
  Codes codes;
  const uint32_t word = AreWords(p, count) ? *reinterpret_cast<const uint32_t*>(p) : 0;
  DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
    if (AreWords(p, count)) {
      codes.c[j] = static_cast<uint8_t>(word >> 8 * j);
    } else {
      codes.c[j] = j < count ? p[j] : static_cast<uint8_t>(missing);
    }
  }
  return codes;
}
DPIPE_KERNEL_FUNCTION void StoreCodes(uint8_t* p, int count, const Codes& codes) {
  if (AreWords(p, count)) {
    uint32_t word = 0;
    DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) word |= uint32_t{codes.c[j]} << 8 * j;
    *reinterpret_cast<uint32_t*>(p) = word;
  } else {
    DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
      if (j < count) p[j] = codes.c[j];
    }
  }
}

// One warp per block of numbers. It reads the block twice: first to find the largest of the new
// moments, then to update.
constexpr int kNumbersOfWarp = kWarp * kPack<float>;
// Number of blocks that a warp updates.
constexpr int kBlocksOfWarp = 4;

struct UpdateInt8 {
  TensorList<AdamWInt8Tensor, kAdamWInt8Tensors> all;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int t = all.Here();
    const AdamWInt8Tensor& tensor = all.tensors[t];
    const uint32_t warp = (Block() - all.FirstBlock(t)) * kWarps + Thread() / kWarp;
    for (int i = 0; i < kBlocksOfWarp; ++i) {
      const int64_t block = int64_t{warp} * kBlocksOfWarp + i;
      if (block * tensor.block_size < tensor.size) UpdateBlock(tensor, block);
    }
  }

  static DPIPE_KERNEL_FUNCTION void UpdateBlock(const AdamWInt8Tensor& tensor, int64_t block) {
    const int64_t begin = block * tensor.block_size;
    const int64_t left = tensor.size - begin;
    const int64_t count = left < tensor.block_size ? left : tensor.block_size;
    const float m_scale = tensor.m_scales[block], root_scale = tensor.root_scales[block];
    float largest_m = 0, largest_v = 0;
    for (int64_t i = Thread() % kWarp * kPack<float>; i < count; i += kNumbersOfWarp) {
      const Numbers x = Load(tensor, begin + i, PackCount<float>(count, i), m_scale, root_scale);
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
        largest_m = fmaxf(largest_m, fabsf(x.m[j]));
        largest_v = fmaxf(largest_v, x.v[j]);
      }
    }
    largest_m = WarpMax(largest_m);
    const float largest_root = sqrtf(WarpMax(largest_v));
    for (int64_t i = Thread() % kWarp * kPack<float>; i < count; i += kNumbersOfWarp) {
      const int of_pack = PackCount<float>(count, i);
      const Numbers x = Load(tensor, begin + i, of_pack, m_scale, root_scale);
      Update(tensor, begin + i, of_pack, x, largest_m, largest_root);
    }
    WarpBarrier();  // all lanes have read the block's scales
    if (Thread() % kWarp == 0) {
      tensor.m_scales[block] = largest_m;
      tensor.root_scales[block] = largest_root;
    }
  }

  struct Numbers {
    float m[kPack<float>], v[kPack<float>];  // the new moments
  };

  static DPIPE_KERNEL_FUNCTION Numbers Load(const AdamWInt8Tensor& tensor, int64_t i, int count,
                                            float m_scale, float root_scale) {
    const Pack<float> grad = LoadPack(tensor.grad + i, count);
    const Codes m = LoadCodes(tensor.m_codes + i, count, Signed().zero());
    const Codes root = LoadCodes(tensor.root_codes + i, count, Unsigned().zero());
    Numbers x;
    DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
      x.m[j] = Signed().value(m.c[j]) * m_scale;
      const float r = Unsigned().value(root.c[j]) * root_scale;
      x.v[j] = r * r;
      UpdateMoments(tensor.factors, grad.v[j], &x.m[j], &x.v[j]);
    }
    return x;
  }

  static DPIPE_KERNEL_FUNCTION void Update(const AdamWInt8Tensor& tensor, int64_t i, int count,
                                           const Numbers& x, float largest_m, float largest_root) {
    Pack<float> p = LoadPack(tensor.parameter + i, count);
    const float m_divisor = largest_m > 0 ? largest_m : 1;
    const float root_divisor = largest_root > 0 ? largest_root : 1;
    Codes m, root;
    DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
      const float r = sqrtf(x.v[j]);
      p.v[j] = Updated(tensor.factors, p.v[j], x.m[j], r);
      m.c[j] = static_cast<uint8_t>(Signed().Nearest(x.m[j] / m_divisor));
      const int code = Unsigned().Nearest(r / root_divisor);
      root.c[j] = static_cast<uint8_t>(code == 0 && r > 0 ? 1 : code);
    }
    StorePack(tensor.parameter + i, count, p);
    StoreCodes(tensor.m_codes + i, count, m);
    StoreCodes(tensor.root_codes + i, count, root);
  }
};

}  // namespace

void UpdateAdamWInt8(const Stream& stream, const AdamWInt8Tensor* tensors, int count) {
  UpdateInt8 kernel = {};
  kernel.all.Divide(tensors, count, [](const AdamWInt8Tensor& tensor) {
    const int64_t blocks = (tensor.size + tensor.block_size - 1) / tensor.block_size;
    const int64_t of_kernel = int64_t{kWarps} * kBlocksOfWarp;
    return static_cast<uint32_t>((blocks + of_kernel - 1) / of_kernel);
  });
  Launch(stream, kernel.all.blocks(), kernel);
}

namespace {

struct AxpbyOfAll {
  TensorList<AxpbyTensor, kAxpbyTensors> all;
  float a, b;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPackOf(all, [this](const AxpbyTensor& tensor, int64_t i, int count) {
      const Pack<float> x = LoadPack(tensor.x + i, count);
      Pack<float> y = LoadPack(tensor.y + i, count);
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) y.v[j] = b * y.v[j] + a * x.v[j];
      StorePack(tensor.y + i, count, y);
    });
  }
};

}  // namespace

void AxpbyAll(const Stream& stream, float a, float b, const AxpbyTensor* tensors, int count) {
  AxpbyOfAll kernel = {{}, a, b};
  kernel.all.DividePacks(tensors, count);
  Launch(stream, kernel.all.blocks(), kernel);
}

}  // namespace dpipe::ops::cuda

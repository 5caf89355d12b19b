#include "core/ops/cuda/kernels/samples.h"

#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

// Elements that a block adds: 16 per thread.
constexpr int64_t kRun = 4096;

int64_t RunsOf(int64_t size) { return (size + kRun - 1) / kRun; }

DPIPE_KERNEL_FUNCTION float LoadAny(const AnyFloats& x, int64_t i) {
  return x.is_bf16 ? Load(static_cast<const Bf16*>(x.data) + i)
                   : Load(static_cast<const float*>(x.data) + i);
}
DPIPE_KERNEL_FUNCTION void StoreAny(const MutableFloats& x, int64_t i, float value) {
  if (x.is_bf16) {
    Store(static_cast<Bf16*>(x.data) + i, value);
  } else {
    Store(static_cast<float*>(x.data) + i, value);
  }
}

// Weights: a type with members x and y that are indexed by sample.
template <typename Weights>
struct Combine {
  Weights weights;
  int64_t samples, size;
  AnyFloats x, y;
  MutableFloats z;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i >= samples * size) return;
    const int64_t sample = i / size;
    StoreAny(z, i, weights.x[sample] * LoadAny(x, i) + weights.y[sample] * LoadAny(y, i));
  }
};

struct WeightsInMemory {
  const float *x, *y;
};

// The number of entries that leaves room for the other arguments within 4096 bytes, the maximum for
// a kernel.
constexpr int kTableEntries = 1000;

struct LookUpPart {
  float table[kTableEntries];  // of entries [first, end)
  int32_t first, end;
  int64_t batch;
  const int32_t* index;
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i >= batch) return;
    if (first <= index[i] && index[i] < end) {
      y[i] = table[index[i] - first];
    } else if (first == 0) {  // later parts of the table run later
      y[i] = NAN;
    }
  }
};

struct InverseQuadraticOfEach {
  int64_t batch;
  double scale, a, b, c;
  const float* x;
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i >= batch) return;
    const double at = x[i];
    y[i] = static_cast<float>(scale / (a + b * at + c * at * at));
  }
};

// Computes terms in double, in which squares of fp32 numbers are exact. One block per run of a
// sample: thread t adds elements t, t + 256, ...
template <typename Term>
struct SumRun {
  Term term;
  int64_t size, runs;
  double* partial;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t sample = Block() / runs, begin = Block() % runs * kRun;
    const int64_t end = begin + kRun < size ? begin + kRun : size;
    double sum = 0;
    for (int64_t i = begin + Thread(); i < end; i += kThreads) sum += term(sample * size + i);
    sum = BlockSum(sum);
    if (Thread() == 0) partial[Block()] = sum;
  }
};

// One block per sample: calls finish(sample, sum of its runs).
template <typename Finish>
struct AddPartial {
  Finish finish;
  int64_t runs;
  const double* partial;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    double sum = 0;
    for (int64_t r = Thread(); r < runs; r += kThreads) sum += partial[Block() * runs + r];
    sum = BlockSum(sum);
    if (Thread() == 0) finish(Block(), sum);
  }
};

template <typename Term, typename Finish>
void LaunchSums(const Stream& stream, int64_t batch, int64_t size, const Term& term,
                const Finish& finish, double* partial) {
  const int64_t runs = RunsOf(size);
  Launch(stream, BlocksFor(batch * runs * kThreads), SumRun<Term>{term, size, runs, partial});
  Launch(stream, BlocksFor(batch * kThreads), AddPartial<Finish>{finish, runs, partial});
}

struct SquaredDifference {
  AnyFloats a, b;
  DPIPE_KERNEL_FUNCTION double operator()(int64_t i) const {
    const double d = double{LoadAny(a, i)} - double{LoadAny(b, i)};
    return d * d;
  }
};

struct WriteLoss {
  int64_t size;
  const float* weights;
  float* loss;
  DPIPE_KERNEL_FUNCTION void operator()(int64_t sample, double sum) const {
    const double weight = weights == nullptr ? 1.0 : double{weights[sample]};
    loss[sample] = static_cast<float>(weight / static_cast<double>(size) * sum);
  }
};

struct ScaledDifference {
  int64_t batch, size;
  AnyFloats prediction, target;
  const float* weights;
  const float* d_loss;
  MutableFloats dp;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll();
    if (i >= batch * size) return;
    const int64_t sample = i / size;
    const double weight = weights == nullptr ? 1.0 : double{weights[sample]};
    const double factor = 2 * weight * d_loss[sample] / static_cast<double>(size);
    const double difference = double{LoadAny(prediction, i)} - double{LoadAny(target, i)};
    StoreAny(dp, i, static_cast<float>(factor * difference));
  }
};

constexpr double kMinLogVariance = -30, kMaxLogVariance = 20;

DPIPE_KERNEL_FUNCTION double StandardDeviation(double log_variance) {
  double clamped = log_variance < kMinLogVariance ? kMinLogVariance : log_variance;
  clamped = clamped > kMaxLogVariance ? kMaxLogVariance : clamped;
  return exp(0.5 * clamped);
}

template <typename T>
struct Sample {
  int64_t rows, channels;
  float factor;
  const T* moments;
  const float* noise;
  float* z;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), row = i / channels;
    if (row >= rows) return;
    const T* const mean = moments + row * channels + i;
    const double deviation = StandardDeviation(Load(mean + channels));
    z[i] = static_cast<float>(factor * (Load(mean) + deviation * noise[i]));
  }
};

template <typename T>
struct SampleGrad {
  int64_t rows, channels;
  float factor;
  const T* moments;
  const float* noise;
  const float* dz;
  T* d_moments;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), row = i / channels;
    if (row >= rows) return;
    const int64_t mean = row * channels + i;
    const double log_variance = Load(moments + mean + channels);
    const double d = double{factor} * dz[i];
    const bool inside = kMinLogVariance <= log_variance && log_variance <= kMaxLogVariance;
    Store(d_moments + mean, static_cast<float>(d));
    Store(d_moments + mean + channels,
          inside ? static_cast<float>(0.5 * d * StandardDeviation(log_variance) * noise[i]) : 0.0f);
  }
};

}  // namespace

void CombineElements(const Stream& stream, const CombineWeights& weights, int64_t samples,
                     int64_t size, AnyFloats x, AnyFloats y, MutableFloats z) {
  Launch(stream, BlocksFor(samples * size),
         Combine<CombineWeights>{weights, samples, size, x, y, z});
}

void CombineElements(const Stream& stream, const float* x_weights, const float* y_weights,
                     int64_t samples, int64_t size, AnyFloats x, AnyFloats y, MutableFloats z) {
  Launch(stream, BlocksFor(samples * size),
         Combine<WeightsInMemory>{{x_weights, y_weights}, samples, size, x, y, z});
}

void LookUpEntries(const Stream& stream, const float* table, int64_t entries, int64_t batch,
                   const int32_t* index, float* y) {
  for (int64_t first = 0; first == 0 || first < entries; first += kTableEntries) {
    const int64_t end = first + kTableEntries < entries ? first + kTableEntries : entries;
    LookUpPart part = {};
    part.first = static_cast<int32_t>(first);
    part.end = static_cast<int32_t>(end);
    part.batch = batch;
    part.index = index;
    part.y = y;
    for (int64_t i = first; i < end; ++i) part.table[i - first] = table[i];
    Launch(stream, BlocksFor(batch), part);
  }
}

void InverseQuadratic(const Stream& stream, int64_t batch, double scale, double a, double b,
                      double c, const float* x, float* y) {
  Launch(stream, BlocksFor(batch), InverseQuadraticOfEach{batch, scale, a, b, c, x, y});
}

int64_t PartialSums(int64_t batch, int64_t size) { return batch * RunsOf(size); }

void MeanSquaredError(const Stream& stream, int64_t batch, int64_t size, AnyFloats prediction,
                      AnyFloats target, const float* weights, double* partial, float* loss) {
  LaunchSums(stream, batch, size, SquaredDifference{prediction, target},
             WriteLoss{size, weights, loss}, partial);
}

void MeanSquaredErrorGrad(const Stream& stream, int64_t batch, int64_t size, AnyFloats prediction,
                          AnyFloats target, const float* weights, const float* d_loss,
                          MutableFloats dp) {
  Launch(stream, BlocksFor(batch * size),
         ScaledDifference{batch, size, prediction, target, weights, d_loss, dp});
}

template <typename T>
void SampleGaussian(const Stream& stream, int64_t rows, int64_t channels, float factor,
                    const T* moments, const float* noise, float* z) {
  Launch(stream, BlocksFor(rows * channels), Sample<T>{rows, channels, factor, moments, noise, z});
}

template <typename T>
void SampleGaussianGrad(const Stream& stream, int64_t rows, int64_t channels, float factor,
                        const T* moments, const float* noise, const float* dz, T* d_moments) {
  Launch(stream, BlocksFor(rows * channels),
         SampleGrad<T>{rows, channels, factor, moments, noise, dz, d_moments});
}

#define DPIPE_INSTANTIATE(T)                                                                       \
  template void SampleGaussian(const Stream&, int64_t, int64_t, float, const T*, const float*,     \
                               float*);                                                            \
  template void SampleGaussianGrad(const Stream&, int64_t, int64_t, float, const T*, const float*, \
                                   const float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda

#include "core/ops/diffusion/gaussian_sample.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cuda/kernels/lookups.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
namespace {

constexpr double kMinLogVariance = -30, kMaxLogVariance = 20;

void CheckArguments(const Tensor& moments, const Tensor& noise) {
  CheckFloat(moments);
  Shape shape = moments.shape();
  DPIPE_CHECK_EQ(shape[-1] % 2, 0);
  shape.Set(-1, shape[-1] / 2);
  CheckFp32(noise, shape);
}

double StandardDeviation(double log_variance) {
  return std::exp(0.5 * std::clamp(log_variance, kMinLogVariance, kMaxLogVariance));
}

void Sample(float factor, const Tensor& moments, const Tensor& noise, const Tensor& z) {
  const int64_t channels = noise.dim(-1);
  for (int64_t i = 0; i < noise.num_elements(); ++i) {
    const int64_t mean = i / channels * 2 * channels + i % channels;
    const double deviation = StandardDeviation(ref::Get(moments, mean + channels));
    ref::Put(z, i, factor * (ref::Get(moments, mean) + deviation * ref::Get(noise, i)));
  }
}

void Gradient(float factor, const Tensor& moments, const Tensor& noise, const Tensor& dz,
              const Tensor& d_moments) {
  const int64_t channels = noise.dim(-1);
  for (int64_t i = 0; i < noise.num_elements(); ++i) {
    const int64_t mean = i / channels * 2 * channels + i % channels;
    const double log_variance = ref::Get(moments, mean + channels);
    const double d = factor * ref::Get(dz, i);
    const bool inside = kMinLogVariance <= log_variance && log_variance <= kMaxLogVariance;
    ref::Put(d_moments, mean, d);
    ref::Put(d_moments, mean + channels,
             inside ? 0.5 * d * StandardDeviation(log_variance) * ref::Get(noise, i) : 0);
  }
}

void SampleOnGpu(float factor, const Tensor& moments, const Tensor& noise, const Tensor& z) {
  const int64_t channels = noise.dim(-1), rows = noise.num_elements() / channels;
  WithElements(
      [&](const auto* from) {
        cuda::SampleGaussian(cuda::StreamOf(z), rows, channels, factor, from, noise.data<float>(),
                             z.data<float>());
      },
      moments);
}

void GradientOnGpu(float factor, const Tensor& moments, const Tensor& noise, const Tensor& dz,
                   const Tensor& d_moments) {
  const int64_t channels = noise.dim(-1), rows = noise.num_elements() / channels;
  WithElements(
      [&](const auto* from, auto* to) {
        cuda::SampleGaussianGrad(cuda::StreamOf(dz), rows, channels, factor, from,
                                 noise.data<float>(), dz.data<float>(), to);
      },
      moments, d_moments);
}

}  // namespace

absl::StatusOr<Tensor> GaussianSampleForward(float factor, const Tensor& moments,
                                             const Tensor& noise) {
  CheckArguments(moments, noise);
  Tensor z = Tensor::Empty(moments.device(), noise.shape(), DType::kF32);
  const auto sample = [&] { Sample(factor, moments, noise, z); };
  DPIPE_RETURN_IF_ERROR(RunOn(*moments.device(), "gaussian_sample", sample, sample,
                              [&] { SampleOnGpu(factor, moments, noise, z); }));
  return z;
}

absl::StatusOr<Tensor> GaussianSampleInputGrad(float factor, const Tensor& moments,
                                               const Tensor& noise, const Tensor& dz) {
  CheckArguments(moments, noise);
  CheckFp32(dz, noise.shape());
  Tensor d_moments = Tensor::Empty(moments.device(), moments.shape(), moments.dtype());
  const auto gradient = [&] { Gradient(factor, moments, noise, dz, d_moments); };
  DPIPE_RETURN_IF_ERROR(RunOn(*moments.device(), "gaussian_sample", gradient, gradient,
                              [&] { GradientOnGpu(factor, moments, noise, dz, d_moments); }));
  return d_moments;
}

}  // namespace dpipe::ops

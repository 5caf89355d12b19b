#include "core/ops/diffusion/diffusion.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/cuda/kernels/samples.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/diffusion/diffusion_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
namespace {

void CheckPair(const Tensor& x, const Tensor& y, DType dtype) {
  CheckFloat(x);
  CheckFloat(y);
  DPIPE_CHECK_EQ(x.shape(), y.shape());
  DPIPE_CHECK(IsFloat(dtype)) << "a result of " << DTypeName(dtype);
}

}  // namespace

absl::StatusOr<Tensor> CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                                      absl::Span<const float> y_weights, const Tensor& y,
                                      DType dtype) {
  CheckPair(x, y, dtype);
  DPIPE_CHECK_EQ(static_cast<int64_t>(x_weights.size()), x.dim(0));
  DPIPE_CHECK_EQ(static_cast<int64_t>(y_weights.size()), x.dim(0));
  Tensor z = Tensor::Empty(x.device(), x.shape(), dtype);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "combine", &DiffusionKernels::combine, x_weights, x,
                                  y_weights, y, &z));
  return z;
}

absl::StatusOr<Tensor> CombineSamples(const Tensor& x_weights, const Tensor& x,
                                      const Tensor& y_weights, const Tensor& y, DType dtype) {
  CheckPair(x, y, dtype);
  CheckFp32(x_weights, {x.dim(0)});
  CheckFp32(y_weights, {x.dim(0)});
  Tensor z = Tensor::Empty(x.device(), x.shape(), dtype);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "combine", &DiffusionKernels::combine_by_tensors,
                                  x_weights, x, y_weights, y, &z));
  return z;
}

absl::StatusOr<Tensor> LookUp(absl::Span<const float> table, const Tensor& index) {
  DPIPE_CHECK(index.dtype() == DType::kI32) << "indices of " << DTypeName(index.dtype());
  DPIPE_CHECK_EQ(index.shape().rank(), 1);
  Tensor y = Tensor::Empty(index.device(), index.shape(), DType::kF32);
  const auto look_up = [&] {  // one number per sample
    for (int64_t b = 0; b < index.dim(0); ++b) {
      const int32_t i = index.data<int32_t>()[b];
      y.data<float>()[b] = 0 <= i && i < static_cast<int64_t>(table.size()) ? table[i] : NAN;
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*index.device(), "look_up", look_up, [&] {
    cuda::LookUpEntries(cuda::StreamOf(index), table.data(), static_cast<int64_t>(table.size()),
                        index.dim(0), index.data<int32_t>(), y.data<float>());
  }));
  return y;
}

absl::StatusOr<Tensor> InverseQuadratic(double scale, const Quadratic& quadratic, const Tensor& x) {
  DPIPE_CHECK_EQ(x.shape().rank(), 1);
  CheckFp32(x, x.shape());
  const auto [a, b, c] = quadratic;
  Tensor y = Tensor::Empty(x.device(), x.shape(), DType::kF32);
  const auto loop = [&, a = a, b = b, c = c] {  // one number per sample
    for (int64_t i = 0; i < x.dim(0); ++i) {
      const double at = x.data<float>()[i];
      y.data<float>()[i] = static_cast<float>(scale / (a + b * at + c * at * at));
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "inverse_quadratic", loop, [&, a = a, b = b, c = c] {
    cuda::InverseQuadratic(cuda::StreamOf(x), x.dim(0), scale, a, b, c, x.data<float>(),
                           y.data<float>());
  }));
  return y;
}

namespace {

constexpr double kMinLogVariance = -30, kMaxLogVariance = 20;

void CheckMoments(const Tensor& moments, const Tensor& noise) {
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
  CheckMoments(moments, noise);
  Tensor z = Tensor::Empty(moments.device(), noise.shape(), DType::kF32);
  const auto sample = [&] { Sample(factor, moments, noise, z); };
  DPIPE_RETURN_IF_ERROR(RunOn(*moments.device(), "gaussian_sample", sample,
                              [&] { SampleOnGpu(factor, moments, noise, z); }));
  return z;
}

absl::StatusOr<Tensor> GaussianSampleInputGrad(float factor, const Tensor& moments,
                                               const Tensor& noise, const Tensor& dz) {
  CheckMoments(moments, noise);
  CheckFp32(dz, noise.shape());
  Tensor d_moments = Tensor::Empty(moments.device(), moments.shape(), moments.dtype());
  const auto gradient = [&] { Gradient(factor, moments, noise, dz, d_moments); };
  DPIPE_RETURN_IF_ERROR(RunOn(*moments.device(), "gaussian_sample", gradient,
                              [&] { GradientOnGpu(factor, moments, noise, dz, d_moments); }));
  return d_moments;
}

namespace {

void CheckLossArguments(const Tensor& prediction, const Tensor& target, const Tensor& weights) {
  CheckFloat(prediction);
  CheckFloat(target);
  DPIPE_CHECK_EQ(prediction.shape(), target.shape());
  if (weights.defined()) CheckFp32(weights, {prediction.dim(0)});
}

}  // namespace

std::vector<double> MseFactors(const Tensor& prediction, const Tensor& weights) {
  const int64_t batch = prediction.dim(0);
  const int64_t sample = prediction.num_elements() / batch;
  std::vector<double> factors(batch, 1.0 / sample);
  if (!weights.defined()) return factors;
  for (int64_t b = 0; b < batch; ++b) factors[b] *= weights.data<float>()[b];
  return factors;
}

std::vector<double> MseGradFactors(const Tensor& prediction, const Tensor& weights,
                                   const Tensor& d_loss) {
  std::vector<double> factors = MseFactors(prediction, weights);
  for (size_t b = 0; b < factors.size(); ++b) factors[b] *= 2.0 * d_loss.data<float>()[b];
  return factors;
}

absl::StatusOr<Tensor> MseLossForward(const Tensor& prediction, const Tensor& target,
                                      const Tensor& weights) {
  CheckLossArguments(prediction, target, weights);
  const auto& device = prediction.device();
  Tensor loss = Tensor::Empty(device, {prediction.dim(0)}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*device, "mse_loss", &DiffusionKernels::mse_loss_forward,
                                  prediction, target, weights, &loss));
  return loss;
}

absl::StatusOr<Tensor> MseLossInputGrad(const Tensor& prediction, const Tensor& target,
                                        const Tensor& weights, const Tensor& d_loss) {
  CheckLossArguments(prediction, target, weights);
  const auto& device = prediction.device();
  CheckFp32(d_loss, {prediction.dim(0)});
  Tensor dp = Tensor::Empty(device, prediction.shape(), prediction.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*device, "mse_loss", &DiffusionKernels::mse_loss_input_grad,
                                  prediction, target, weights, d_loss, &dp));
  return dp;
}

}  // namespace dpipe::ops

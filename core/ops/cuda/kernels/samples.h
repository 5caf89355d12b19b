// Kernels with separate parameters for each sample of a batch, and of a VAE's latents. T: float or
// Bf16.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_SAMPLES_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_SAMPLES_H_

#include <cstdint>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/bf16.h"

namespace dpipe::ops::cuda {

// Elements whose type is known only at run time: for small tensors of several types.
struct AnyFloats {
  const void* data;
  bool is_bf16;
};
struct MutableFloats {
  void* data;
  bool is_bf16;
};

// Weights of samples are passed as kernel arguments, at most this many at a time.
constexpr int kCombineSamples = 128;
struct CombineWeights {
  float x[kCombineSamples], y[kCombineSamples];
};
// CombineSamples, for up to kCombineSamples samples of `size` elements; the pointers are the first
// sample's.
void CombineElements(const Stream& stream, const CombineWeights& weights, int64_t samples,
                     int64_t size, AnyFloats x, AnyFloats y, MutableFloats z);
// As above, for any number of samples, with their weights in memory.
void CombineElements(const Stream& stream, const float* x_weights, const float* y_weights,
                     int64_t samples, int64_t size, AnyFloats x, AnyFloats y, MutableFloats z);

// y[b] = table[index[b]], NaN if there is no such entry. The table is passed in kernel arguments,
// so it need not be on the device.
void LookUpEntries(const Stream& stream, const float* table, int64_t entries, int64_t batch,
                   const int32_t* index, float* y);

// y[i] = scale / (a + b x[i] + c x[i]^2), computed in double.
void InverseQuadratic(const Stream& stream, int64_t batch, double scale, double a, double b,
                      double c, const float* x, float* y);

// MseLoss, for samples of `size` elements. `weights` null: ones. partial: workspace of
// PartialSums(batch, size) numbers.
int64_t PartialSums(int64_t batch, int64_t size);
void MeanSquaredError(const Stream& stream, int64_t batch, int64_t size, AnyFloats prediction,
                      AnyFloats target, const float* weights, double* partial, float* loss);
void MeanSquaredErrorGrad(const Stream& stream, int64_t batch, int64_t size, AnyFloats prediction,
                          AnyFloats target, const float* weights, const float* d_loss,
                          MutableFloats dp);

// GaussianSample: moments [rows, 2 * channels].
template <typename T>
void SampleGaussian(const Stream& stream, int64_t rows, int64_t channels, float factor,
                    const T* moments, const float* noise, float* z);
template <typename T>
void SampleGaussianGrad(const Stream& stream, int64_t rows, int64_t channels, float factor,
                        const T* moments, const float* noise, const float* dz, T* d_moments);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_SAMPLES_H_

#include <vector>

#include "core/ops/elementwise/gated_add_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/channel_sums.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

template <typename T>
DPIPE_VECTOR_INLINE void Rows(const T* __restrict x, const float* __restrict gate,
                              const T* __restrict h, T* __restrict y, int64_t positions,
                              int64_t channels) {
  for (int64_t p = 0; p < positions; ++p, x += channels, h += channels, y += channels) {
    for (int64_t c = 0; c < channels; ++c) Store(y + c, Load(x + c) + gate[c] * Load(h + c));
  }
}

// Computes dh, and the sums of dy h over positions.
template <typename T>
DPIPE_VECTOR_INLINE void GradRows(const float* __restrict gate, const T* __restrict h,
                                  const T* __restrict dy, T* __restrict dh, int64_t positions,
                                  int64_t channels, double* const* sums) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      Store(dh + p * channels + c, Load(dy + p * channels + c) * gate[c]);
    }
  }
  const auto term = [=](int64_t i, int64_t, float* out) __attribute__((always_inline)) {
    out[0] = Load(dy + i) * Load(h + i);
  };
  SumOverPositions<1>(positions, channels, term, sums);
}

}  // namespace

DPIPE_VECTOR_CLONES void GatedRows(const float* x, const float* gate, const float* h, float* y,
                                   int64_t positions, int64_t channels) {
  Rows(x, gate, h, y, positions, channels);
}
DPIPE_VECTOR_CLONES void GatedRows(const Bf16* x, const float* gate, const Bf16* h, Bf16* y,
                                   int64_t positions, int64_t channels) {
  Rows(x, gate, h, y, positions, channels);
}
DPIPE_VECTOR_CLONES void GatedGradRows(const float* gate, const float* h, const float* dy,
                                       float* dh, int64_t positions, int64_t channels,
                                       double* const* sums) {
  GradRows(gate, h, dy, dh, positions, channels, sums);
}
DPIPE_VECTOR_CLONES void GatedGradRows(const float* gate, const Bf16* h, const Bf16* dy, Bf16* dh,
                                       int64_t positions, int64_t channels, double* const* sums) {
  GradRows(gate, h, dy, dh, positions, channels, sums);
}

namespace {

template <typename T>
std::vector<float> GateOfSample(const T* gate, int64_t b, int64_t channels) {
  std::vector<float> values(channels);
  for (int64_t c = 0; c < channels; ++c) values[c] = Load(gate + b * channels + c);
  return values;
}

}  // namespace

void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  WithElements(
      [&](const auto* px, const auto* pg, const auto* ph, auto* py) {
        ParallelFor(*x.device(), x.dim(0), [&](int64_t b) {
          const std::vector<float> values = GateOfSample(pg, b, channels);
          GatedRows(px + b * sample, values.data(), ph + b * sample, py + b * sample,
                    sample / channels, channels);
        });
      },
      x, gate, h, *y);
}

void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy,
                       GatedAddGrads* grads) {
  const int64_t channels = h.dim(-1), sample = h.num_elements() / h.dim(0);
  WithElements(
      [&](const auto* pg, const auto* ph, const auto* pdy, auto* pdg, auto* pdh) {
        ParallelFor(*h.device(), h.dim(0), [&](int64_t b) {
          const std::vector<float> values = GateOfSample(pg, b, channels);
          std::vector<double> sums(channels);
          double* const columns[] = {sums.data()};
          GatedGradRows(values.data(), ph + b * sample, pdy + b * sample, pdh + b * sample,
                        sample / channels, channels, columns);
          for (int64_t c = 0; c < channels; ++c) {
            Store(pdg + b * channels + c, static_cast<float>(sums[c]));
          }
        });
      },
      gate, h, dy, grads->dgate, grads->dh);
}

}  // namespace dpipe::ops::cpu

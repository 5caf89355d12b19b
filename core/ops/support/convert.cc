#include "core/ops/support/convert.h"

#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"
#include "core/tensor/device_work.h"

namespace dpipe::ops {

namespace {

// Both tensors are read or written once.
template <typename From, typename To>
void ConvertOnGpu(const Tensor& from, const Tensor& to) {
  const WorkScope scope("convert");
  CountWork(0, static_cast<double>(from.size_bytes() + to.size_bytes()));
  cuda::MapConvert(cuda::StreamOf(from), from.num_elements(), from.data<From>(), to.data<To>());
}

}  // namespace

DPIPE_VECTOR_CLONES void WidenRows(int64_t rows, int64_t columns, const Bf16* from,
                                   int64_t from_stride, float* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const Bf16* __restrict source = from + r * from_stride;
    float* __restrict target = to + r * to_stride;
    for (int64_t c = 0; c < columns; ++c) Store(target + c, Load(source + c));
  }
}

DPIPE_VECTOR_CLONES void NarrowRows(int64_t rows, int64_t columns, const float* from,
                                    int64_t from_stride, Bf16* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* __restrict source = from + r * from_stride;
    Bf16* __restrict target = to + r * to_stride;
    for (int64_t c = 0; c < columns; ++c) Store(target + c, Load(source + c));
  }
}

void Widen(int64_t n, const Bf16* from, float* to) { WidenRows(1, n, from, n, to, n); }

void Narrow(int64_t n, const float* from, Bf16* to) { NarrowRows(1, n, from, n, to, n); }

void Widen(const Device& device, int64_t n, const Bf16* from, float* to) {
  ParallelRuns(device, n,
               [&](int64_t begin, int64_t end) { Widen(end - begin, from + begin, to + begin); });
}

void Narrow(const Device& device, int64_t n, const float* from, Bf16* to) {
  ParallelRuns(device, n,
               [&](int64_t begin, int64_t end) { Narrow(end - begin, from + begin, to + begin); });
}

Tensor Widened(const Tensor& bf16) {
  Tensor fp32 = Tensor::Empty(bf16.device(), bf16.shape(), DType::kF32);
  const int64_t n = bf16.num_elements();
  if (bf16.device()->kind() == DeviceKind::kCuda) {
    ConvertOnGpu<Bf16, float>(bf16, fp32);
  } else {
    Widen(*bf16.device(), n, bf16.data<Bf16>(), fp32.data<float>());
  }
  return fp32;
}

Tensor Narrowed(const Tensor& fp32) {
  Tensor bf16 = Tensor::Empty(fp32.device(), fp32.shape(), DType::kBf16);
  const int64_t n = fp32.num_elements();
  if (fp32.device()->kind() == DeviceKind::kCuda) {
    ConvertOnGpu<float, Bf16>(fp32, bf16);
  } else {
    Narrow(*fp32.device(), n, fp32.data<float>(), bf16.data<Bf16>());
  }
  return bf16;
}

}  // namespace dpipe::ops

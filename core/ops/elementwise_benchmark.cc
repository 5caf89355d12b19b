// Speed of the ops that are limited by memory or by exp: bytes of operands and results that must be
// moved, per second. BM_Memcpy of the same number of bytes is the machine's limit.
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/philox.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/optimizer/optimizer.h"

namespace dpipe::ops {
namespace {

Tensor Random(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  Tensor t = Tensor::Empty(device, shape, DType::kF32);
  for (float& v : t.span<float>()) v = random.NextNormal();
  return t.To(dtype);
}

DType TypeOf(const benchmark::State& state) {
  return state.range(0) == 0 ? DType::kF32 : DType::kBf16;
}

// Counts the minimum number of bytes moved: `tensors` times `t`.
void CountBytes(benchmark::State& state, const Tensor& t, int tensors) {
  state.SetBytesProcessed(state.iterations() * tensors * t.size_bytes());
}

// Half of the bytes are read and half written.
void BM_Memcpy(benchmark::State& state) {
  std::vector<char> from(state.range(0) / 2, 1), to(state.range(0) / 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Arg(256 << 10)->Arg(1 << 20)->Arg(4 << 20)->Arg(28 << 20);

// Arguments: dtype (0 fp32, 1 bf16), side of the image, channels; a batch of 4.
Shape ImageOf(const benchmark::State& state) {
  return {4, state.range(1), state.range(1), state.range(2)};
}

void BM_GroupNormSilu(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, ImageOf(state), TypeOf(state));
  const Tensor scale = Random(cpu, {state.range(2)}, DType::kF32);
  GroupNormParams params;
  params.groups = 8;
  params.silu = true;
  for (auto _ : state) benchmark::DoNotOptimize(GroupNormForward(params, x, scale, scale)->y);
  CountBytes(state, x, 2);
}
BENCHMARK(BM_GroupNormSilu)->ArgsProduct({{0, 1}, {64}, {32}})->ArgsProduct({{0, 1}, {16}, {64}});

void BM_GroupNormSiluGrad(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, ImageOf(state), TypeOf(state));
  const Tensor scale = Random(cpu, {state.range(2)}, DType::kF32);
  GroupNormParams params;
  params.groups = 8;
  params.silu = true;
  const Tensor stats = GroupNormForward(params, x, scale, scale)->stats;
  for (auto _ : state) {
    benchmark::DoNotOptimize(GroupNormInputGrad(params, x, x, stats, scale, scale)->dx);
  }
  CountBytes(state, x, 3);
}
BENCHMARK(BM_GroupNormSiluGrad)
    ->ArgsProduct({{0, 1}, {64}, {32}})
    ->ArgsProduct({{0, 1}, {16}, {64}});

void BM_LayerNorm(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, {4, 256, 128}, TypeOf(state));
  const Tensor scale = Random(cpu, {128}, DType::kF32);
  for (auto _ : state) benchmark::DoNotOptimize(LayerNormForward({}, x, scale, scale)->y);
  CountBytes(state, x, 2);
}
BENCHMARK(BM_LayerNorm)->Arg(0)->Arg(1);

void BM_LayerNormGrad(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, {4, 256, 128}, TypeOf(state));
  const Tensor scale = Random(cpu, {128}, DType::kF32);
  const Tensor stats = LayerNormForward({}, x, scale, scale)->stats;
  for (auto _ : state) benchmark::DoNotOptimize(LayerNormInputGrad(x, x, stats, scale)->dx);
  CountBytes(state, x, 3);
}
BENCHMARK(BM_LayerNormGrad)->Arg(0)->Arg(1);

void BM_Silu(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, {1 << 17}, TypeOf(state));
  for (auto _ : state) benchmark::DoNotOptimize(*ActivationForward(Activation::kSilu, x));
  CountBytes(state, x, 2);
}
BENCHMARK(BM_Silu)->Arg(0)->Arg(1);

void BM_Geglu(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor x = Random(cpu, {256, 1024}, TypeOf(state));
  for (auto _ : state) benchmark::DoNotOptimize(*GegluForward(x));
  state.SetBytesProcessed(state.iterations() * x.size_bytes() * 3 / 2);
}
BENCHMARK(BM_Geglu)->Arg(0)->Arg(1);

// Reads gradient, parameter and two moments, and writes all but the gradient: 28 bytes per
// parameter.
void BM_AdamW(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor grad = Random(cpu, {state.range(0)}, DType::kF32);
  Tensor p = grad.Clone(), m = Tensor::Zeros(cpu, grad.shape(), DType::kF32), v = m.Clone();
  int64_t step = 0;
  for (auto _ : state) {
    if (!AdamWStep({}, ++step, 1, grad, &p, &m, &v).ok()) state.SkipWithError("AdamWStep failed");
  }
  CountBytes(state, grad, 7);
}
BENCHMARK(BM_AdamW)->Arg(1 << 20);

// The same with 8-bit moments: 16 bytes per parameter, and more work.
void BM_AdamWInt8(benchmark::State& state) {
  const auto cpu = Device::Cpu();
  const Tensor grad = Random(cpu, {state.range(0)}, DType::kF32), p = grad.Clone();
  BlockQuantized m(cpu, grad.num_elements(), 256, BlockQuantized::Sign::kSigned);
  BlockQuantized root_v(cpu, grad.num_elements(), 256, BlockQuantized::Sign::kUnsigned);
  int64_t step = 0;
  for (auto _ : state) {
    if (!AdamWInt8Steps({{{}, grad, p, &m, &root_v}}, ++step, 1).ok()) {
      state.SkipWithError("AdamWInt8Steps failed");
    }
  }
  CountBytes(state, grad, 4);
}
BENCHMARK(BM_AdamWInt8)->Arg(1 << 20);

void BM_SumOfSquares(benchmark::State& state) {
  const Tensor x = Random(Device::Cpu(), {state.range(0)}, DType::kF32);
  for (auto _ : state) benchmark::DoNotOptimize(*SumOfSquares(x));
  CountBytes(state, x, 1);
}
BENCHMARK(BM_SumOfSquares)->Arg(1 << 20);

}  // namespace
}  // namespace dpipe::ops

BENCHMARK_MAIN();

// Speed of the ops with weights and of attention: in fp32, in bf16 as this CPU runs it, and in bf16
// with oneDNN's own bf16 kernels (bf16_native). FLOPs are multiplications and additions of the
// definition; FLOPS is their rate.
//
//   bazel run -c opt //core/ops:ops_benchmark -- --benchmark_filter=Linear
//
// Shapes: a small U-Net's at micro-batches of 4 and 8, the smallest possible (which shows the cost
// of a call), and one of Stable Diffusion's.
#include <functional>
#include <string>

#include "benchmark/benchmark.h"
#include "core/base/philox.h"
#include "core/ops/attention/attention.h"
#include "core/ops/onednn/onednn.h"
#include "core/ops/product/conv2d.h"
#include "core/ops/product/linear.h"

namespace dpipe::ops {
namespace {

struct Mode {
  const char* name;
  DType dtype;
  onednn::Bf16Choice choice;
};
constexpr Mode kModes[] = {{"fp32", DType::kF32, onednn::Bf16Choice::kByCpu},
                           {"bf16", DType::kBf16, onednn::Bf16Choice::kByCpu},
                           {"bf16_native", DType::kBf16, onednn::Bf16Choice::kNative}};

Tensor Random(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype,
              float scale = 1) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  Tensor t = Tensor::Empty(device, shape, DType::kF32);
  for (float& value : t.span<float>()) value = scale * random.NextNormal();
  return dtype == DType::kF32 ? t : t.To(dtype);
}

// Times `run`, which must succeed.
void Time(benchmark::State& state, const Mode& mode, double flops,
          const std::function<absl::Status()>& run) {
  onednn::SetBf16Choice(mode.choice);
  for (auto _ : state) {
    const absl::Status status = run();
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  state.counters["FLOPS"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  onednn::SetBf16Choice(onednn::Bf16Choice::kByCpu);
}

void Register(const std::string& name, const Mode& mode,
              std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark((name + "/" + mode.name).c_str(), std::move(body))
      ->Unit(benchmark::kMicrosecond);
}

void RegisterConv2d(const std::string& name, const Mode& mode, const Shape& x_shape,
                    const Shape& w_shape, const Conv2dParams& params) {
  const auto device = Device::Cpu();
  const auto weight = std::make_shared<Weight>(Random(device, w_shape, DType::kF32, 0.05f));
  const Shape y_shape = Conv2dOutputShape(params, x_shape, w_shape);
  const Tensor x = Random(device, x_shape, mode.dtype), dy = Random(device, y_shape, mode.dtype);
  const Tensor bias = Random(device, {w_shape[0]}, DType::kF32);
  const double flops = 2.0 * y_shape.num_elements() * w_shape[1] * w_shape[2] * w_shape[3];
  Register("Conv2dForward/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops, [&] { return Conv2dForward(params, x, *weight, bias).status(); });
  });
  // The first micro-batch of a step pays for preparing the weight.
  Register("Conv2dForwardAfterUpdate/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops, [&] {
      weight->MarkUpdated();
      return Conv2dForward(params, x, *weight, bias).status();
    });
  });
  Register("Conv2dInputGrad/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops,
         [&] { return Conv2dInputGrad(params, dy, *weight, x.shape()).status(); });
  });
  Register("Conv2dWeightGrad/" + name, mode, [=](benchmark::State& state) {
    Tensor dw = Tensor::Zeros(device, weight->shape(), DType::kF32);
    Tensor db = Tensor::Zeros(device, bias.shape(), DType::kF32);
    Time(state, mode, flops, [&] { return Conv2dWeightGrad(params, x, dy, &dw, &db); });
  });
}

void RegisterLinear(const std::string& name, const Mode& mode, int64_t rows, int64_t in,
                    int64_t out) {
  const auto device = Device::Cpu();
  const auto weight = std::make_shared<Weight>(Random(device, {out, in}, DType::kF32, 0.05f));
  const Tensor x = Random(device, {rows, in}, mode.dtype);
  const Tensor dy = Random(device, {rows, out}, mode.dtype);
  const Tensor bias = Random(device, {out}, DType::kF32);
  const double flops = 2.0 * rows * in * out;
  Register("LinearForward/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops, [&] { return LinearForward(x, *weight, bias).status(); });
  });
  Register("LinearInputGrad/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops, [&] { return LinearInputGrad(dy, *weight).status(); });
  });
  Register("LinearWeightGrad/" + name, mode, [=](benchmark::State& state) {
    Tensor dw = Tensor::Zeros(device, weight->shape(), DType::kF32);
    Tensor db = Tensor::Zeros(device, bias.shape(), DType::kF32);
    Time(state, mode, flops, [&] { return LinearWeightGrad(x, dy, &dw, &db); });
  });
}

void RegisterAttention(const std::string& name, const Mode& mode, const Shape& q_shape,
                       int64_t keys, int heads) {
  const auto device = Device::Cpu();
  const Shape k_shape = {q_shape[0], keys, q_shape[2]};
  const Tensor q = Random(device, q_shape, mode.dtype), dy = Random(device, q_shape, mode.dtype);
  const Tensor k = Random(device, k_shape, mode.dtype), v = Random(device, k_shape, mode.dtype);
  const AttentionParams params = {heads, AttentionScale(q_shape[2], heads), false};
  const double flops = 4.0 * q_shape.num_elements() * keys;  // two products; backward has four
  Register("AttentionForward/" + name, mode, [=](benchmark::State& state) {
    Time(state, mode, flops, [&] { return AttentionForward(params, q, k, v).status(); });
  });
  Register("AttentionInputGrad/" + name, mode, [=](benchmark::State& state) {
    const Tensor saved = AttentionForward(params, q, k, v)->saved;
    Time(state, mode, 2 * flops,
         [&] { return AttentionInputGrad(params, dy, q, k, v, saved).status(); });
  });
}

void RegisterAll(const Mode& mode) {
  const Conv2dParams same = Conv2dSymmetric(1, 1);
  RegisterConv2d("tiny_1x1x1", mode, {1, 3, 3, 1}, {1, 1, 3, 3}, same);
  for (int64_t n : {4, 8}) {
    const std::string batch = "batch" + std::to_string(n) + "_";
    RegisterConv2d(batch + "64ch_16x16", mode, {n, 16, 16, 64}, {64, 64, 3, 3}, same);
    RegisterConv2d(batch + "128ch_8x8", mode, {n, 8, 8, 128}, {128, 128, 3, 3}, same);
  }
  RegisterConv2d("batch4_192to64ch_16x16", mode, {4, 16, 16, 192}, {64, 192, 3, 3}, same);
  RegisterConv2d("batch4_64ch_16x16_down", mode, {4, 16, 16, 64}, {64, 64, 3, 3},
                 Conv2dSymmetric(2, 1));
  RegisterConv2d("batch4_4to64ch_16x16", mode, {4, 16, 16, 4}, {64, 4, 3, 3}, same);
  RegisterConv2d("batch4_64to4ch_16x16", mode, {4, 16, 16, 64}, {4, 64, 3, 3}, same);
  RegisterConv2d("batch4_3to32ch_64x64", mode, {4, 64, 64, 3}, {32, 3, 3, 3}, same);
  RegisterConv2d("batch4_32ch_64x64", mode, {4, 64, 64, 32}, {32, 32, 3, 3}, same);
  RegisterConv2d("batch4_64ch_32x32", mode, {4, 32, 32, 64}, {64, 64, 3, 3}, same);
  RegisterConv2d("batch4_pointwise_64ch_16x16", mode, {4, 16, 16, 64}, {64, 64, 1, 1},
                 Conv2dSymmetric(1, 0));
  RegisterConv2d("full_320ch_64x64", mode, {1, 64, 64, 320}, {320, 320, 3, 3}, same);
  RegisterLinear("tiny_1x1", mode, 1, 1, 1);
  RegisterLinear("batch4_time_64to256", mode, 4, 64, 256);
  RegisterLinear("batch4_256tokens_64to64", mode, 1024, 64, 64);
  RegisterLinear("batch4_256tokens_64to512", mode, 1024, 64, 512);
  RegisterLinear("batch4_64tokens_128to1024", mode, 256, 128, 1024);
  RegisterLinear("batch4_64tokens_512to128", mode, 256, 512, 128);
  RegisterAttention("tiny_1x1", mode, {1, 1, 1}, 1, 1);
  RegisterAttention("batch4_256tokens_2heads_of_32", mode, {4, 256, 64}, 256, 2);
  RegisterAttention("batch4_64tokens_4heads_of_32", mode, {4, 64, 128}, 64, 4);
  RegisterAttention("batch4_cross_256to32_2heads_of_32", mode, {4, 256, 64}, 32, 2);
  RegisterAttention("batch4_cross_64to32_4heads_of_32", mode, {4, 64, 128}, 32, 4);
  RegisterAttention("full_4096tokens_8heads_of_40", mode, {1, 4096, 320}, 4096, 8);
}

}  // namespace
}  // namespace dpipe::ops

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const auto& mode : dpipe::ops::kModes) dpipe::ops::RegisterAll(mode);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

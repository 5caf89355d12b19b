// Merging adapters of every layer of Stable Diffusion v1.5's U-Net, on all allowed cores.
//
//   bazel run -c opt //models/lora:merge_benchmark
//
// The answer is checked: one weight's change is the product of its adapter by definition.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/base/files/run_paths.h"
#include "models/lora/lora.h"
#include "models/unet/unet.h"
#include "models/unet/unet_config.h"

namespace dpipe::models {
namespace {

constexpr float kUp = 0.5f, kDown = 0.25f;

struct Model {
  NamedTensors base, adapters;
};

// Weights of zeros, and adapters all of whose elements are kUp or kDown.
Model MakeModel(int64_t rank) {
  const auto config =
      ReadUNetConfig(ProgramDataPath("data/models/stable_diffusion_v1_5/unet/config.json"));
  DPIPE_CHECK(config.ok()) << config.status();
  const auto program = BuildUNetForInference(*config, {64, 64, 77});
  DPIPE_CHECK(program.ok()) << program.status();
  const auto cpu = Device::Cpu();
  const auto filled = [&cpu](std::vector<int64_t> dims, float value) {
    Tensor tensor = Tensor::Empty(cpu, Shape(std::move(dims)), DType::kF32);
    for (float& x : tensor.span<float>()) x = value;
    return tensor;
  };
  Model model;
  for (int i = 0; i < program->num_parameters(); ++i) {
    const nn::ParameterInfo& info = program->parameter(nn::ParameterId(i));
    absl::string_view layer = info.name;
    if (!absl::ConsumeSuffix(&layer, ".weight") || info.shape.rank() < 2) continue;
    std::vector<int64_t> down(info.shape.dims().begin(), info.shape.dims().end());
    down[0] = rank;
    model.adapters[absl::StrCat(layer, nn::kLoraUp)] = filled({info.shape.dims()[0], rank}, kUp);
    model.adapters[absl::StrCat(layer, nn::kLoraDown)] = filled(down, kDown);
    model.base[info.name] = Tensor::Zeros(cpu, info.shape, DType::kF32);
  }
  return model;
}

void BM_MergeIntoStableDiffusionV15(benchmark::State& state) {
  const int64_t rank = state.range(0);
  Model model = MakeModel(rank);
  int64_t weights = 0;
  for (const auto& [name, tensor] : model.base) weights += tensor.num_elements();
  int times = 0;
  for (auto _ : state) {
    DPIPE_CHECK(MergeLoraInto(model.adapters, 1, &model.base).ok());
    ++times;
  }
  const float expected = static_cast<float>(times) * kUp * kDown * static_cast<float>(rank);
  for (const auto& [name, tensor] : model.base) {
    DPIPE_CHECK(std::fabs(tensor.span<float>().back() - expected) < 1e-3f * expected) << name;
  }
  state.counters["GFLOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(weights * rank * state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_MergeIntoStableDiffusionV15)
    ->Arg(16)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace dpipe::models

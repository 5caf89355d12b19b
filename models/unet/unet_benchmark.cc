// Times the forward and backward passes of one training step of data/tiny_sd's U-Net on one core.
#include <string>

#include "benchmark/benchmark.h"
#include "core/nn/execution.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/unet/unet.h"

namespace dpipe::models {
namespace {

UNetConfig TinyConfig() {
  UNetConfig config;
  config.block_out_channels = {48, 96};
  config.down_has_attention = {false, true};
  config.up_has_attention = {false, true};
  config.layers_per_block = 1;
  config.num_heads = {2, 4};
  config.transformer_layers = {1, 1};
  config.cross_attention_dim = 64;
  config.linear_projection = true;
  config.norm_groups = 16;
  return config;
}

// Arguments: batch size, 1 for bf16, 1 to run the backward pass too.
void BM_TinyUNet(benchmark::State& state) {
  const auto device = Device::Cpu();
  const DType dtype = state.range(1) != 0 ? DType::kBf16 : DType::kF32;
  const auto program =
      BuildUNetForTraining(TinyConfig(), {16, 16, 32},
                           diffusion::DiffusionObjective(*diffusion::NoiseSchedule::Create({})));
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  nn::ValueMap inputs, output_grads;
  for (ValueId id : program->inputs()) {
    inputs[id] = Tensor::Zeros(device, program->BatchShape(id, state.range(0)),
                               nn::ResolveElement(program->value(id).type.element, dtype));
  }
  output_grads[program->outputs()[0]] = Tensor::Zeros(device, Shape({state.range(0)}), DType::kF32);
  const LayerRange all = program->all_layers();
  for (auto _ : state) {
    nn::ValueMap values = inputs, grads = output_grads;
    nn::RangeState saved;
    const bool backward = state.range(2) != 0;
    absl::Status status =
        nn::Forward(*program, all, parameters, {dtype}, &values, backward ? &saved : nullptr);
    if (backward) status.Update(nn::Backward(*program, all, &parameters, &saved, &grads));
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  const double passes = state.range(2) != 0 ? 3 : 1;
  state.counters["GMAC/s"] = benchmark::Counter(
      passes * program->MultiplyAdds(all) * 1e-9 * state.range(0) * state.iterations(),
      benchmark::Counter::kIsRate);
}
BENCHMARK(BM_TinyUNet)
    ->ArgNames({"batch", "bf16", "backward"})
    ->ArgsProduct({{1, 4, 16}, {0, 1}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dpipe::models

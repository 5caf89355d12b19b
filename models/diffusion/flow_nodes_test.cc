#include "models/diffusion/flow_nodes.h"

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/testing/gradient_check.h"
#include "core/ops/testing/op_testing.h"
#include "models/diffusion/flow_matching.h"

namespace dpipe::diffusion {
namespace {

// A linear layer as the backbone.
nn::Program LinearModel(FlowWeight weight) {
  nn::ProgramBuilder builder("flow");
  const nn::ValueType data = {Shape({3, 4}), nn::Element::kF32};
  const ValueId x0 = builder.AddInput("x0", data), noise = builder.AddInput("noise", data);
  const ValueId level = builder.AddInput("level", {Shape(), nn::Element::kF32});
  builder.BeginLayer("noising", nn::LayerKind::kFrozen);
  const ValueId x = AddFlowNoising(&builder, x0, noise, level);
  builder.BeginLayer("backbone", nn::LayerKind::kTrainable);
  const ValueId prediction = nn::AddLinear(&builder, "linear", x, {4});
  builder.BeginLayer("loss", nn::LayerKind::kTrainable);
  builder.MarkOutput(AddFlowLoss(&builder, weight, {prediction, x0, noise, level}), "loss");
  return builder.Build();
}

TEST(FlowNodesTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (const FlowWeight weight : {FlowWeight::kOne, FlowWeight::kSigmaSqrt, FlowWeight::kCosmap}) {
    const nn::Program program = LinearModel(weight);
    nn::ParameterSet parameters(program, program.all_layers(), device);
    parameters.InitRandom(1);
    const nn::ValueMap inputs = nn::RandomInputs(program, device, 3, DType::kF32, 1, 2);
    const absl::Status gradients = nn::CheckGradients(program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits =
          nn::CheckSplits(program, &parameters, inputs, nn::RunOptions{dtype}, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

// With a backbone that predicts 0, the loss is the mean square of the target, times the weight.
TEST(FlowNodesTest, LossByHand) {
  const auto device = Device::Cpu();
  const nn::Program program = LinearModel(FlowWeight::kSigmaSqrt);
  nn::ParameterSet parameters(program, program.all_layers(), device);
  for (const nn::ParameterId id : parameters.ids()) {
    for (float& v : parameters.weight(id).master().span<float>()) v = 0;
    parameters.mutable_weight(id)->MarkUpdated();
  }
  nn::ValueMap values = nn::RandomInputs(program, device, 2, DType::kF32, 1, 2);
  const std::vector<double> target = ops::Values(
      *FlowTarget(values.at(program.InputNamed("x0")), values.at(program.InputNamed("noise"))));
  values[program.InputNamed("level")] = Tensor::FromHost<float>(device, {2}, {1, 0.5f});
  ASSERT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &values, nullptr).ok());
  const std::vector<double> loss = ops::Values(values.at(program.OutputNamed("loss")));
  for (int b = 0; b < 2; ++b) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += target[b * 12 + i] * target[b * 12 + i];
    EXPECT_NEAR(loss[b], sum / 12 * (b == 0 ? 1 : 4), 4e-6);
  }
}

}  // namespace
}  // namespace dpipe::diffusion

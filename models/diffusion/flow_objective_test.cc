#include "models/diffusion/flow_objective.h"

#include <cmath>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/testing/gradient_check.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::diffusion {
namespace {

using models::DrawOptions;
using ops::Values;

FlowObjective Make(const FlowScheduleOptions& schedule, const FlowObjectiveOptions& options = {}) {
  return *FlowObjective::Create(*FlowSchedule::Create(schedule), options);
}

FlowScheduleOptions StaticShift() {
  FlowScheduleOptions options;
  options.shift = 3;
  return options;
}

FlowScheduleOptions DynamicShift() {
  FlowScheduleOptions options;
  options.use_dynamic_shifting = true;
  return options;
}

// Outputs "input", the noisy samples, and "loss". The backbone is a linear layer.
nn::Program Training(const FlowObjective& objective) {
  nn::ProgramBuilder builder("flow");
  const nn::ValueType data = {Shape({3, 4}), nn::Element::kF32};
  const ValueId x0 = builder.AddInput("x0", data), noise = builder.AddInput("noise", data);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), objective.timestep_element()});
  builder.BeginLayer("noising", nn::LayerKind::kFrozen);
  const ValueId x = objective.AddNoising(&builder, x0, noise, timesteps);
  builder.BeginLayer("backbone", nn::LayerKind::kTrainable);
  const ValueId prediction = nn::AddLinear(&builder, "linear", x, {4});
  builder.BeginLayer("loss", nn::LayerKind::kTrainable);
  builder.MarkOutput(objective.AddLoss(&builder, {prediction, x0, noise, timesteps}), "loss");
  return builder.Build();
}

TEST(FlowObjectiveTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (const FlowWeight weight : {FlowWeight::kOne, FlowWeight::kCosmap}) {
    FlowObjectiveOptions options;
    options.weight = weight;
    const nn::Program program = Training(Make(StaticShift(), options));
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

// The loss, and so its gradient, is the plain one times its level's weight.
TEST(FlowObjectiveTest, WeightsOfLevels) {
  const auto device = Device::Cpu();
  const auto losses = [&](FlowWeight weight) {
    FlowObjectiveOptions options;
    options.weight = weight;
    const nn::Program program = Training(Make({}, options));
    nn::ParameterSet parameters(program, program.all_layers(), device);
    parameters.InitRandom(1);
    nn::ValueMap values = nn::RandomInputs(program, device, 2, DType::kF32, 1, 2);
    values[program.InputNamed("timesteps")] = Tensor::FromHost<float>(device, {2}, {250, 1000});
    EXPECT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &values, nullptr).ok());
    return Values(values.at(program.OutputNamed("loss")));
  };
  const std::vector<double> plain = losses(FlowWeight::kOne);
  const std::vector<double> sigma = losses(FlowWeight::kSigmaSqrt);
  const std::vector<double> cosmap = losses(FlowWeight::kCosmap);
  EXPECT_NEAR(sigma[0], 16 * plain[0], 1e-5 * sigma[0]);
  EXPECT_NEAR(sigma[1], plain[1], 1e-6 * plain[1]);
  EXPECT_NEAR(cosmap[0], 2 / (M_PI * 0.625) * plain[0], 1e-6 * plain[0]);
  EXPECT_NEAR(cosmap[1], 2 / M_PI * plain[1], 1e-6 * plain[1]);
}

// With the identity as the backbone, the loss is the mean of ((1 - s) x0 + s noise - (noise -
// x0))^2 = ((2 - s) x0 - (1 - s) noise)^2. Timesteps count from 0 to num_train_timesteps.
TEST(FlowObjectiveTest, LossInClosedForm) {
  const auto device = Device::Cpu();
  for (const int num_train_timesteps : {1000, 7}) {
    FlowScheduleOptions schedule;
    schedule.num_train_timesteps = num_train_timesteps;
    const nn::Program program = Training(Make(schedule));
    nn::ParameterSet parameters(program, program.all_layers(), device);
    for (const nn::ParameterId id : parameters.ids()) {
      const Tensor& master = parameters.weight(id).master();
      const bool is_matrix = master.shape().rank() == 2;
      for (int64_t i = 0; i < master.num_elements(); ++i) {
        master.data<float>()[i] = is_matrix && i / 4 == i % 4 ? 1 : 0;
      }
      parameters.mutable_weight(id)->MarkUpdated();
    }
    nn::ValueMap values = nn::RandomInputs(program, device, 4, DType::kF32, 1, 2);
    const std::vector<double> levels = {0, 0.25, 0.8, 1};
    std::vector<float> timesteps;
    for (const double s : levels) timesteps.push_back(static_cast<float>(num_train_timesteps * s));
    values[program.InputNamed("timesteps")] = Tensor::FromHost<float>(device, {4}, timesteps);
    const std::vector<double> x0 = Values(values.at(program.InputNamed("x0")));
    const std::vector<double> noise = Values(values.at(program.InputNamed("noise")));
    ASSERT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &values, nullptr).ok());
    const std::vector<double> loss = Values(values.at(program.OutputNamed("loss")));
    for (int b = 0; b < 4; ++b) {
      double sum = 0;
      for (int i = 12 * b; i < 12 * (b + 1); ++i) {
        const double error = (2 - levels[b]) * x0[i] - (1 - levels[b]) * noise[i];
        sum += error * error;
      }
      EXPECT_NEAR(loss[b], sum / 12, 2e-6 * (1 + sum / 12)) << "level " << levels[b];
    }
  }
}

TEST(FlowObjectiveTest, TimestepsAreThoseOfDrawnLevels) {
  const auto device = Device::Cpu();
  const FlowSchedule schedule = *FlowSchedule::Create(StaticShift());
  FlowObjectiveOptions options;
  options.training.density = FlowDensity::kLogitNormal;
  options.training.shift = 2;
  const FlowObjective objective = *FlowObjective::Create(schedule, options);
  TimestepRequest request;
  request.seed = 5;
  request.step = 6;
  request.first_sample = 7;
  request.count = 300;
  const FlowLevels levels = *FlowLevels::Create(schedule, options.training);
  const Tensor drawn = objective.DrawTimesteps(request, device);
  ops::ExpectSameBits(drawn, *FlowTimesteps(schedule, levels.Draw(device, 5, 6, 7, 300)));
  request.sampling = TimestepSampling::kSpeed;
  ops::ExpectSameBits(objective.DrawTimesteps(request, device), drawn);
  request.first_sample = 107;
  request.count = 3;
  ops::ExpectSameBits(objective.DrawTimesteps(request, device), drawn.Slice(100, 103));
}

// From little noise to much: 1, ..., 1000 before the shift.
TEST(FlowObjectiveTest, QuantilesOfTheSchedule) {
  FlowObjectiveOptions options;
  options.training.density = FlowDensity::kMode;  // both play no part
  options.training.shift = 2;
  TimestepRequest request;
  request.quantiles = {0, 0.25, 0.9995};
  request.first_sample = 4;
  request.count = 4;
  const auto timesteps = [&](const FlowScheduleOptions& schedule) {
    return Values(Make(schedule, options).DrawTimesteps(request, Device::Cpu()));
  };
  const std::vector<double> plain = timesteps({}), shifted = timesteps(StaticShift());
  const std::vector<double> expected = {251, 1000, 1, 251};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(plain[i], expected[i], 1e-4);
    EXPECT_NEAR(shifted[i], 1000 * ShiftLevel(3, expected[i] / 1000), 1e-4);
  }
}

// Draws with a model that knows the target, and returns the timesteps at which it was called.
std::vector<double> TimestepsOfDrawing(const FlowObjective& objective, const Shape& shape,
                                       const DrawOptions& options) {
  const auto device = Device::Cpu();
  const Tensor x0 = ops::RandomTensor(device, shape, DType::kF32, 1);
  const Tensor noise = ops::RandomTensor(device, shape, DType::kF32, 2);
  const Tensor target = *FlowTarget(x0, noise);
  std::vector<double> visited;
  int calls = 0;
  EXPECT_TRUE(objective.CheckDraw(options).ok());
  const auto drawn = objective.Draw(
      options, /*first_sample=*/3, noise,
      [&](const Tensor&, const Tensor& timesteps) -> absl::StatusOr<Tensor> {
        EXPECT_EQ(timesteps.shape(), (Shape{shape[0]}));
        for (const double t : Values(timesteps)) EXPECT_EQ(t, Values(timesteps)[0]);
        visited.push_back(Values(timesteps)[0]);
        return target;
      },
      [&] { ++calls; });
  EXPECT_TRUE(drawn.ok()) << drawn.status();
  ops::ExpectClose(*drawn, x0, {1e-6, 3e-6});
  EXPECT_EQ(calls, objective.NumModelCalls(options));
  EXPECT_EQ(visited.size(), static_cast<size_t>(calls));
  return visited;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 3e-4) << i;
}

TEST(FlowObjectiveTest, DrawsByEulersMethod) {
  DrawOptions options;
  options.num_steps = 5;
  const FlowScheduleOptions schedule = StaticShift();
  std::vector<double> expected =
      *FlowSchedule::Create(schedule)->SamplingLevels(5, FlowSchedule::Spacing::kTrained);
  expected.pop_back();
  for (double& level : expected) level *= 1000;
  ExpectNear(TimestepsOfDrawing(Make(schedule), {2, 4, 6, 3}, options), expected);
  options.kind = SamplerKind::kEuler;
  ExpectNear(TimestepsOfDrawing(Make(schedule), {2, 4, 6, 3}, options), expected);
}

// FLUX.1: the shift is exp(0.5) at 256 tokens and exp(1.15) at 4096, whose latents have 32 x 32 and
// 128 x 128 positions.
TEST(FlowObjectiveTest, DynamicShiftFollowsTheSize) {
  FlowObjectiveOptions flux;
  flux.spacing = FlowSchedule::Spacing::kFull;
  const FlowObjective objective = Make(DynamicShift(), flux);
  DrawOptions options;
  options.num_steps = 4;
  const auto expected = [](double mu) {
    std::vector<double> timesteps;
    for (const double s : {1.0, 0.75, 0.5, 0.25}) {
      timesteps.push_back(1000 * std::exp(mu) / (std::exp(mu) + 1 / s - 1));
    }
    return timesteps;
  };
  ExpectNear(TimestepsOfDrawing(objective, {1, 32, 32, 2}, options), expected(0.5));
  ExpectNear(TimestepsOfDrawing(objective, {1, 64, 16, 2}, options), expected(0.5));
  ExpectNear(TimestepsOfDrawing(objective, {2, 128, 128, 1}, options), expected(1.15));
  flux.positions_per_token = 1;
  ExpectNear(TimestepsOfDrawing(Make(DynamicShift(), flux), {1, 16, 16, 2}, options),
             expected(0.5));
}

TEST(FlowObjectiveTest, ProblemsAreNamed) {
  const FlowObjective objective = Make(DynamicShift());
  const auto error = [&](auto change) {
    DrawOptions options;
    change(&options);
    return std::string(objective.CheckDraw(options).message());
  };
  EXPECT_EQ(error([](DrawOptions*) {}), "");
  EXPECT_EQ(error([](DrawOptions* o) { o->num_steps = 0; }), "0 steps; use at least 1");
  EXPECT_EQ(error([](DrawOptions* o) { o->batch = 0; }), "sampling batch is 0, must be at least 1");
  EXPECT_EQ(error([](DrawOptions* o) { o->guidance = NAN; }),
            "the guidance scale is nan, must be finite");
  EXPECT_EQ(error([](DrawOptions* o) { o->kind = SamplerKind::kDdim; }),
            "the sampler is ddim, but models of flow matching are drawn by Euler's method; use "
            "euler or folder");
  FlowObjectiveOptions options;
  options.positions_per_token = 0;
  EXPECT_EQ(FlowObjective::Create(objective.schedule(), options).status().message(),
            "positions_per_token is 0; use at least 1");
  options = {};
  options.training.logit_std = -1;
  EXPECT_EQ(FlowObjective::Create(objective.schedule(), options).status().message(),
            "logit_mean 0, logit_std -1; expected a number and one above 0");
}

}  // namespace
}  // namespace dpipe::diffusion

#include "core/emulation/emulated_model.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/nn/execution.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// Checks the profile's values against the program, by the layers that they connect.
void ExpectWiredAlike(const ComponentProfile& profile, const nn::Program& program) {
  ASSERT_EQ(program.num_layers(), profile.layers_size());
  for (int cut = 1; cut < program.num_layers(); ++cut) {
    int live = 0, gradients = 0;
    for (const ValueProfile& value : profile.values()) {
      if (value.producer_layer() < 0 || value.producer_layer() >= cut) continue;
      const auto& readers = value.consumer_layers();
      if (readers.empty() || readers[readers.size() - 1] < cut) continue;
      ++live;
      gradients += value.has_gradient() ? 1 : 0;
    }
    EXPECT_EQ(static_cast<int>(program.LiveAt(cut).size()), live) << profile.name() << " " << cut;
    EXPECT_EQ(static_cast<int>(program.GradientsAt(cut).size()), gradients)
        << profile.name() << " " << cut;
  }
}

TEST(EmulatedModelTest, CheckedInProfilesBecomeModelsOfTheSameStructure) {
  for (const std::string name : {"stable_diffusion_v2_1_512", "controlnet_v1_0_512", "cdm_lsun_256",
                                 "flux_512", "stable_diffusion_v2_1_self_conditioning_512"}) {
    ModelProfile profile;
    const absl::Status read =
        ReadTextProto("data/profiles/modelled/a100_80gb/" + name + ".textproto", &profile);
    ASSERT_TRUE(read.ok()) << read;
    const auto model = MakeEmulatedModel(profile);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status();
    for (int c = 0; c < profile.components_size(); ++c) {
      ExpectWiredAlike(profile.components(c), model->component(c).program);
    }
  }
}

TEST(EmulatedModelTest, GradientsAreTheDerivativesOfTheLoss) {
  RandomStream stream(1, 0, 0, RandomPurpose::kTest);
  for (int i = 0; i < 20; ++i) {
    const ModelProfile profile = RandomProfile(stream);
    const auto model = MakeEmulatedModel(profile);
    ASSERT_TRUE(model.ok()) << model.status();
    const nn::Program& program = model->backbone().program;
    EmulatedInputs inputs(&*model, /*seed=*/5);
    const auto device = Device::Cpu();
    nn::ParameterSet parameters(program, program.all_layers(), device);
    ASSERT_TRUE(parameters.Load(inputs.backbone_parameters()).ok());
    const auto loss = [&](nn::RangeState* state, nn::ValueMap* values) {
      for (ValueId id : program.inputs()) {
        auto loaded =
            inputs.Load(model->backbone().name, program.value(id).name, 0, {0, 3}, device);
        EXPECT_TRUE(loaded.ok()) << loaded.status();
        (*values)[id] = *loaded;
      }
      EXPECT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, values, state).ok());
      double sum = 0;
      for (float x : (*values)[model->backbone().loss()].span<float>()) sum += x;
      return sum;
    };
    nn::RangeState state;
    nn::ValueMap values;
    loss(&state, &values);
    Tensor seed = Tensor::Empty(device, {3}, DType::kF32);
    for (float& g : seed.span<float>()) g = 1;
    nn::ValueMap grads = {{model->backbone().loss(), seed}};
    ASSERT_TRUE(nn::Backward(program, program.all_layers(), &parameters, &state, &grads).ok());
    for (nn::ParameterId id : parameters.trainable_ids()) {
      ops::Weight* weight = parameters.mutable_weight(id);
      float& element = weight->master().data<float>()[0];
      const float grad = parameters.grad(id)->data<float>()[0];
      const float before = element;
      constexpr float kStep = 0.25f;
      element = before + kStep;
      nn::ValueMap ignored;
      const double above = loss(nullptr, &ignored);
      element = before - kStep;
      ignored.clear();
      const double below = loss(nullptr, &ignored);
      element = before;
      EXPECT_NEAR(grad, (above - below) / (2 * kStep), 2e-3 * (1 + std::abs(grad)));
    }
  }
}

TEST(EmulatedModelTest, AFrozenOutputIsTheSameLoadedAsComputed) {
  ModelProfile profile;
  ASSERT_TRUE(
      ReadTextProto("data/profiles/modelled/a100_80gb/controlnet_v1_0_512.textproto", &profile)
          .ok());
  const auto model = MakeEmulatedModel(profile);
  ASSERT_TRUE(model.ok()) << model.status();
  EmulatedInputs inputs(&*model, /*seed=*/5);
  const auto device = Device::Cpu();
  const auto all = inputs.Load("controlnet", "skip_3", 2, {0, 6}, device);
  const auto one = inputs.Load("controlnet", "skip_3", 2, {4, 5}, device);
  ASSERT_TRUE(all.ok() && one.ok()) << all.status() << one.status();
  EXPECT_EQ(all->data<float>()[4], one->data<float>()[0]);
  EXPECT_NE(all->data<float>()[3], one->data<float>()[0]);
}

TEST(EmulatedModelTest, ErrorsNameTheUnsupportedPart) {
  ModelProfile profile = UniformProfile();
  profile.mutable_components(0)->mutable_values(0)->clear_consumer_layers();
  const auto model = MakeEmulatedModel(profile);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(model.status().message()).find("has no readers"), std::string::npos)
      << model.status();
}

}  // namespace

}  // namespace dpipe

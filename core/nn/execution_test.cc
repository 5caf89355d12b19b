#include "core/nn/execution.h"

#include <cstring>

#include "core/base/philox.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "core/nn/testing/gradient_check.h"
#include "core/nn/testing/random_program.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

using testing::Test;

// x [1] -> a = 2x (layer a) -> b = 3a (layer b) -> y = a * 5 + b (layer c), without biases. The
// skip goes from a to c.
class ChainTest : public Test {
 protected:
  ChainTest()
      : device_(Device::CpuReference()),
        program_(Build()),
        parameters_(program_, program_.all_layers(), device_) {
    device_->allocator().set_poison(true);
    const float weights[] = {2, 3, 5};
    for (int i = 0; i < 3; ++i)
      parameters_.weight(ParameterId(i)).master().data<float>()[0] = weights[i];
  }

  Program Build() {
    ProgramBuilder builder("chain");
    const LinearSpec scalar{1, /*bias=*/false};
    x_ = builder.AddInput("x", {Shape({1}), Element::kF32});
    builder.BeginLayer("a", LayerKind::kTrainable);
    a_ = AddLinear(&builder, "a", x_, scalar);
    builder.BeginLayer("b", LayerKind::kTrainable);
    b_ = AddLinear(&builder, "b", a_, scalar);
    builder.BeginLayer("c", LayerKind::kTrainable);
    const ValueId c = AddLinear(&builder, "c", a_, scalar);
    y_ = AddSum(&builder, c, b_);
    builder.MarkOutput(y_, "y");
    return builder.Build();
  }

  Tensor Batch(std::vector<float> values) const {
    return Tensor::FromHost<float>(device_, Shape({static_cast<int64_t>(values.size()), 1}),
                                   absl::MakeConstSpan(values));
  }
  float Grad(int i) const { return parameters_.grad(ParameterId(i)).data<float>()[0]; }
  static std::vector<int> Keys(const ValueMap& values) {
    std::vector<int> keys;
    for (const auto& [id, tensor] : values) keys.push_back(id.value());
    return keys;
  }

  std::shared_ptr<Device> device_;
  ValueId x_, a_, b_, y_;
  Program program_;
  ParameterSet parameters_;
  RangeState state_;
};

TEST_F(ChainTest, ByHand) {
  ValueMap values = {{x_, Batch({1, -2})}};
  ASSERT_TRUE(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).ok());
  EXPECT_EQ(Keys(values), Keys({{y_, {}}}));
  EXPECT_EQ(values[y_].data<float>()[0], 16);  // 5 * 2 + 3 * 2
  EXPECT_EQ(values[y_].data<float>()[1], -32);
  ValueMap grads = {{y_, Batch({1, 10})}};
  ASSERT_TRUE(Backward(program_, {0, 3}, &parameters_, &state_, &grads).ok());
  EXPECT_TRUE(grads.empty());
  EXPECT_EQ(Grad(2), 2 * 1 + -4 * 10);        // sum of a * dy
  EXPECT_EQ(Grad(1), 2 * 1 + -4 * 10);        // sum of a * db
  EXPECT_EQ(Grad(0), 8 * (1 * 1 + -2 * 10));  // da = (5 + 3) dy
  EXPECT_TRUE(state_.finished());
}

TEST_F(ChainTest, RangesExchangeLiveValues) {
  ValueMap values = {{x_, Batch({1})}};
  ASSERT_TRUE(Forward(program_, {0, 1}, parameters_, {}, &values, &state_).ok());
  EXPECT_EQ(Keys(values), Keys({{a_, {}}})) << "no later layer reads x";
  ASSERT_TRUE(Forward(program_, {1, 2}, parameters_, {}, &values, &state_).ok());
  EXPECT_EQ(Keys(values), Keys({{a_, {}}, {b_, {}}})) << "c still reads a";
  ValueMap grads = {{a_, Batch({5})}, {b_, Batch({1})}};
  ASSERT_TRUE(InputGrad(program_, {1, 2}, parameters_, &state_, &grads).ok());
  EXPECT_EQ(Keys(grads), Keys({{a_, {}}}));
  EXPECT_EQ(grads[a_].data<float>()[0], 8);
  EXPECT_EQ(Grad(1), 0) << "not before WeightGrad";
  ASSERT_TRUE(WeightGrad(program_, {1, 2}, &parameters_, &state_).ok());
  EXPECT_EQ(Grad(1), 2);
}

// Neither a value that only later layers read nor its gradient need pass through a range.
TEST_F(ChainTest, RangesNeedOnlyTheirInputs) {
  ValueMap values = {{x_, Batch({1})}};
  RangeState front, middle, back;
  ASSERT_TRUE(Forward(program_, {0, 1}, parameters_, {}, &values, &front).ok());
  const Tensor a = values[a_];
  ASSERT_TRUE(Forward(program_, {1, 2}, parameters_, {}, &values, &middle).ok());
  values[a_] = a;
  ASSERT_TRUE(Forward(program_, {2, 3}, parameters_, {}, &values, &back).ok());
  ValueMap grads = {{y_, Batch({1})}};
  ASSERT_TRUE(Backward(program_, {2, 3}, &parameters_, &back, &grads).ok());
  const Tensor kept = grads[a_];
  grads.erase(a_);
  ASSERT_TRUE(Backward(program_, {1, 2}, &parameters_, &middle, &grads).ok());
  EXPECT_EQ(grads[a_].data<float>()[0], 3) << "the contribution of b alone";
  grads[a_] = kept;
  ASSERT_TRUE(Backward(program_, {0, 1}, &parameters_, &front, &grads).ok());
  EXPECT_EQ(Grad(0), 5) << "the contribution of c alone";
  values.clear();
  EXPECT_EQ(Forward(program_, {1, 2}, parameters_, {}, &values, nullptr).message(),
            "chain, layers [1, 2): value 'a/linear_0' is missing");
}

TEST_F(ChainTest, WeightGradsAdd) {
  for (int k = 1; k <= 2; ++k) {
    ValueMap values = {{x_, Batch({1})}}, grads = {{y_, Batch({1})}};
    ASSERT_TRUE(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).ok());
    ASSERT_TRUE(Backward(program_, {0, 3}, &parameters_, &state_, &grads).ok());
    EXPECT_EQ(Grad(0), 8 * k);
  }
  parameters_.ZeroGrads();
  EXPECT_EQ(Grad(0), 0);
}

TEST_F(ChainTest, MemoryIsFreedEarly) {
  const int64_t before = device_->allocator().stats().allocated_bytes;
  {
    ValueMap values = {{x_, Batch({1, 2})}};
    ASSERT_TRUE(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).ok());
    EXPECT_EQ(state_.bytes(), 16) << "x, and a once, though b and c both keep it";
    EXPECT_EQ(state_.bytes({1, 2}), 8);
    ValueMap grads = {{y_, Batch({1, 1})}};
    ASSERT_TRUE(Backward(program_, {1, 3}, &parameters_, &state_, &grads).ok());
    EXPECT_EQ(state_.bytes(), 8) << "x";
    ASSERT_TRUE(InputGrad(program_, {0, 1}, parameters_, &state_, &grads).ok());
    EXPECT_EQ(state_.bytes(), 16) << "x and the gradient of a";
    ASSERT_TRUE(WeightGrad(program_, {0, 1}, &parameters_, &state_).ok());
    EXPECT_EQ(state_.bytes(), 0);
  }
  EXPECT_EQ(device_->allocator().stats().allocated_bytes, before);
}

TEST_F(ChainTest, NothingIsKeptWithoutAState) {
  ValueMap values = {{x_, Batch({1})}};
  const int64_t before = device_->allocator().stats().allocated_bytes;
  ASSERT_TRUE(Forward(program_, {0, 3}, parameters_, {}, &values, nullptr).ok());
  values.clear();
  EXPECT_LT(device_->allocator().stats().allocated_bytes, before);
}

TEST_F(ChainTest, BadValuesAreNamed) {
  ValueMap values;
  EXPECT_EQ(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).message(),
            "chain, layers [0, 3): value 'x' is missing");
  values[x_] = Tensor::Zeros(device_, Shape({2, 4}), DType::kF32);
  EXPECT_EQ(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).message(),
            "chain: value 'x' is fp32 [2, 4], expected fp32 [2, 1]");
  values[x_] = Tensor::Zeros(device_, Shape({2, 1}), DType::kBf16);
  EXPECT_EQ(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).message(),
            "chain: value 'x' is bf16 [2, 1], expected fp32 [2, 1]");
  values = {{a_, Batch({1, 2})}, {b_, Batch({1})}};
  EXPECT_EQ(Forward(program_, {2, 3}, parameters_, {}, &values, &state_).message(),
            "chain: value 'b/linear_0' is fp32 [1, 1], expected fp32 [2, 1]");
}

TEST_F(ChainTest, PassesOutOfOrderAreRefused) {
  ValueMap values = {{x_, Batch({1})}}, grads = {{y_, Batch({1})}};
  ASSERT_TRUE(Forward(program_, {0, 3}, parameters_, {}, &values, &state_).ok());
  EXPECT_EQ(InputGrad(program_, {0, 2}, parameters_, &state_, &grads).message(),
            "input gradients of layers [0, 2): layer 2 has no input gradients yet");
  EXPECT_EQ(WeightGrad(program_, {2, 3}, &parameters_, &state_).message(),
            "weight gradients of layer 2 before its input gradients");
  ASSERT_TRUE(InputGrad(program_, {1, 3}, parameters_, &state_, &grads).ok());
  EXPECT_EQ(InputGrad(program_, {1, 3}, parameters_, &state_, &grads).message(),
            "input gradients of layers [1, 3): layer 1 already has its input gradients");
  ASSERT_TRUE(WeightGrad(program_, {1, 3}, &parameters_, &state_).ok());
  EXPECT_EQ(WeightGrad(program_, {1, 2}, &parameters_, &state_).message(),
            "weight gradients of layer 1 twice");
  grads.clear();
  EXPECT_EQ(InputGrad(program_, {0, 1}, parameters_, &state_, &grads).message(),
            "chain, layers [0, 1): the gradient of 'a/linear_0' is missing");
}

// A linear node whose passes can be made wrong on purpose.
class FaultyNode : public Node {
 public:
  FaultyNode(float gradient_factor, bool remembers)
      : gradient_factor_(gradient_factor), remembers_(remembers) {}
  absl::string_view kind() const override { return "faulty"; }
  ValueType output() const override { return {Shape({6}), Element::kCompute}; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    Tensor y = inputs[0].Clone();
    if (remembers_) y.data<float>()[0] += 1e-6f * static_cast<float>(++runs_);
    return y;
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    Tensor dx = dy.Clone();
    for (float& d : dx.span<float>()) d *= gradient_factor_;
    return std::vector<Tensor>{dx};
  }

 private:
  const float gradient_factor_;
  const bool remembers_;
  mutable int runs_ = 0;
};

Program WithFaultyNode(float gradient_factor, bool remembers) {
  ProgramBuilder builder("faulty");
  ValueId x = builder.AddInput("x", {Shape({6}), Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  x = AddLinear(&builder, "a", x, {6});
  builder.BeginLayer("b", LayerKind::kTrainable);
  x = builder.AddNode(std::make_unique<FaultyNode>(gradient_factor, remembers), {x});
  builder.MarkOutput(x, "y");
  return builder.Build();
}

TEST(ProgramChecksTest, AcceptCorrectAndRejectFaultyPrograms) {
  const auto device = Device::CpuReference();
  const struct {
    float gradient_factor;
    bool remembers, gradients_ok, splits_ok;
  } cases[] = {{1, false, true, true}, {1.05f, false, false, true}, {1, true, true, false}};
  for (const auto& c : cases) {
    const Program program = WithFaultyNode(c.gradient_factor, c.remembers);
    ParameterSet parameters(program, program.all_layers(), device);
    parameters.InitRandom(3);
    const ValueMap inputs = RandomInputs(program, device, 3, DType::kF32, 1, 4);
    EXPECT_EQ(CheckGradients(program, &parameters, inputs, {}).ok(), c.gradients_ok);
    EXPECT_EQ(CheckSplits(program, &parameters, inputs, {}, 5).ok(), c.splits_ok);
  }
}

// For any graph, gradients are right and no cut changes a bit.
TEST(RandomProgramTest, GradientsAndSplits) {
  for (const auto& device : {Device::CpuReference(), Device::Cpu()}) {
    device->allocator().set_poison(true);
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      RandomProgramOptions options;
      options.seed = seed;
      options.frozen_layers = seed % 3;
      const Program program = RandomProgram(options);
      ParameterSet parameters(program, program.all_layers(), device);
      parameters.InitRandom(seed);
      const ValueMap inputs = RandomInputs(program, device, 3, DType::kF32, 1, seed);
      const absl::Status gradients = CheckGradients(program, &parameters, inputs, {});
      EXPECT_TRUE(gradients.ok()) << "seed " << seed << ": " << gradients << program.Summary();
      for (DType dtype : {DType::kF32, DType::kBf16}) {
        const absl::Status splits =
            CheckSplits(program, &parameters, RandomInputs(program, device, 3, dtype, 1, seed),
                        RunOptions{dtype}, seed);
        EXPECT_TRUE(splits.ok()) << "seed " << seed << ": " << splits << program.Summary();
      }
    }
  }
}

// 2^16 samples of 2^15 numbers are 2^31 elements, which would take 8 GB: nothing is computed.
TEST(ExecutionOnGpusTest, ResultsWithTooManyElementsAreRefused) {
  cuda::FakeDriver driver;
  const auto gpus = cuda::CreateCudaDevices(&driver, 1);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ProgramBuilder builder("wide");
  const ValueId x = builder.AddInput("x", {Shape({1}), Element::kF32});
  builder.BeginLayer("widen", LayerKind::kFrozen);
  builder.MarkOutput(AddLinear(&builder, "widen", x, {1 << 15, /*bias=*/false}), "y");
  const Program program = builder.Build();
  const ParameterSet parameters(program, program.all_layers(), (*gpus)[0]);
  ValueMap values = {{x, Tensor::Zeros((*gpus)[0], {1 << 16, 1}, DType::kF32)}};
  const absl::Status status =
      Forward(program, program.all_layers(), parameters, RunOptions(), &values, /*state=*/nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "wide, layer 'widen', linear: 65536 samples give 2147483648 elements, but GPUs support "
            "at most 2147483647; run at most 65535 samples at a time");
}

}  // namespace
}  // namespace dpipe::nn

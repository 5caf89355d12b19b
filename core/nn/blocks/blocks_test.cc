// Tests every block, trainable and frozen with gradient, between two trainable layers.
#include <functional>

#include "core/nn/blocks/resnet_block.h"
#include "core/nn/blocks/transformer_block.h"
#include "core/nn/execution.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

struct BlockInputs {
  ValueId x;        // [4, 6, 8]
  ValueId skip;     // [4, 6, 4]
  ValueId time;     // [5]
  ValueId context;  // [3, 7]
};

using AddBlock = std::function<ValueId(ProgramBuilder*, const BlockInputs&, LayerKind)>;

ValueId Resnet(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  ResnetSpec spec;
  spec.out_channels = 12;
  spec.groups = 4;
  spec.kind = kind;
  spec.time = in.time;
  spec.skip = in.skip;
  return AddResnetBlock(builder, "block", in.x, spec);
}

ValueId PlainResnet(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  ResnetSpec spec;
  spec.out_channels = 8;
  spec.groups = 2;
  spec.kind = kind;
  return AddResnetBlock(builder, "block", in.x, spec);
}

ValueId Modulated(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind,
                  Resample resample) {
  ResnetSpec spec;
  spec.out_channels = 8;
  spec.groups = 2;
  spec.kind = kind;
  spec.time = in.time;
  spec.scale_shift = true;
  spec.resample = resample;
  return AddResnetBlock(builder, "block", in.x, spec);
}

ValueId ScaleShiftResnet(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  return Modulated(builder, in, kind, Resample::kNone);
}

ValueId DownResnet(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  return Modulated(builder, in, kind, Resample::kDown);
}

// With a shortcut; the project's models have none in this place.
ValueId UpResnet(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  ResnetSpec spec;
  spec.out_channels = 4;
  spec.groups = 2;
  spec.kind = kind;
  spec.time = in.time;
  spec.resample = Resample::kUp;
  return AddResnetBlock(builder, "block", in.x, spec);
}

ValueId Resized(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  builder->BeginLayer("block", kind);
  const ValueId x = AddResizeBilinear(builder, in.x, 7, 5);
  return AddConv2d(builder, "conv", x, {8});
}

ValueId Transformer(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  TransformerSpec spec;
  spec.num_heads = 2;
  spec.num_blocks = 2;
  spec.groups = 4;
  spec.kind = kind;
  return AddTransformer(builder, "block", in.x, in.context, spec);
}

// A norm of tokens whose input has another reader, and a norm of heads.
ValueId RmsNorms(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  builder->BeginLayer("block", kind);
  const ValueId norm = AddRmsNorm(builder, "norm", in.x, {});
  const ValueId sum = AddSum(builder, AddLinear(builder, "linear", norm, {8}), in.x);
  return AddRmsNorm(builder, "heads", sum, {}, 4);
}

ValueId Down(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  return AddDownsample(builder, "block", in.x, /*asymmetric=*/false, kind);
}

ValueId AsymmetricDown(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  return AddDownsample(builder, "block", in.x, /*asymmetric=*/true, kind);
}

ValueId Up(ProgramBuilder* builder, const BlockInputs& in, LayerKind kind) {
  return AddUpsample(builder, "block", in.x, kind);
}

// A trainable layer that makes the block's inputs, then the block, then a trainable layer.
Program Around(const AddBlock& add_block, LayerKind kind) {
  ProgramBuilder builder("block");
  const ValueId image = builder.AddInput("image", {Shape({4, 6, 3}), Element::kCompute});
  const ValueId vector = builder.AddInput("vector", {Shape({5}), Element::kCompute});
  const ValueId tokens = builder.AddInput("tokens", {Shape({3, 7}), Element::kCompute});
  builder.BeginLayer("before", LayerKind::kTrainable);
  BlockInputs in;
  in.x = AddConv2d(&builder, "x", image, {8});
  in.skip = AddConv2d(&builder, "skip", image, {4});
  in.time = AddLinear(&builder, "time", vector, {5});
  in.context = AddLinear(&builder, "context", tokens, {7});
  const ValueId y = add_block(&builder, in, kind);
  builder.BeginLayer("after", LayerKind::kTrainable);
  builder.MarkOutput(AddConv2d(&builder, "y", y, {2}), "y");
  // Reads all inputs here, since not every block does.
  const ValueId joined =
      AddConcat(&builder, {in.time, AddReshape(&builder, in.context, Shape({21})),
                           AddReshape(&builder, in.skip, Shape({96}))});
  builder.MarkOutput(AddLinear(&builder, "z", joined, {2}), "z");
  return builder.Build();
}

class BlocksTest : public testing::TestWithParam<std::pair<std::string, AddBlock>> {};

TEST_P(BlocksTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  for (LayerKind kind : {LayerKind::kTrainable, LayerKind::kFrozenWithGradient}) {
    const Program program = Around(GetParam().second, kind);
    ParameterSet parameters(program, program.all_layers(), device);
    parameters.InitRandom(1);
    const ValueMap inputs = RandomInputs(program, device, 2, DType::kF32, 1, 2);
    const absl::Status gradients = CheckGradients(program, &parameters, inputs, {});
    EXPECT_TRUE(gradients.ok()) << gradients;
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const absl::Status splits = CheckSplits(
          program, &parameters, RandomInputs(program, device, 2, dtype, 1, 2), {dtype}, 3);
      EXPECT_TRUE(splits.ok()) << splits;
    }
  }
}

// A block whose weights are not trained keeps less for its backward pass.
TEST_P(BlocksTest, FrozenWithGradientKeepsLess) {
  const auto device = Device::Cpu();
  int64_t bytes[2];
  for (int i = 0; i < 2; ++i) {
    const Program program =
        Around(GetParam().second, i == 0 ? LayerKind::kTrainable : LayerKind::kFrozenWithGradient);
    ParameterSet parameters(program, program.all_layers(), device);
    EXPECT_EQ(parameters.trainable_ids().size() == parameters.ids().size(), i == 0);
    ValueMap values = RandomInputs(program, device, 2, DType::kF32, 1, 2);
    RangeState state;
    ASSERT_TRUE(Forward(program, program.all_layers(), parameters, {}, &values, &state).ok());
    bytes[i] = state.bytes({1, program.num_layers() - 1});
  }
  EXPECT_LT(bytes[1], bytes[0]);
}

INSTANTIATE_TEST_SUITE_P(
    All, BlocksTest,
    testing::Values(std::pair<std::string, AddBlock>("Resnet", Resnet),
                    std::pair<std::string, AddBlock>("PlainResnet", PlainResnet),
                    std::pair<std::string, AddBlock>("ScaleShiftResnet", ScaleShiftResnet),
                    std::pair<std::string, AddBlock>("DownResnet", DownResnet),
                    std::pair<std::string, AddBlock>("UpResnet", UpResnet),
                    std::pair<std::string, AddBlock>("Resized", Resized),
                    std::pair<std::string, AddBlock>("Transformer", Transformer),
                    std::pair<std::string, AddBlock>("RmsNorms", RmsNorms),
                    std::pair<std::string, AddBlock>("Down", Down),
                    std::pair<std::string, AddBlock>("AsymmetricDown", AsymmetricDown),
                    std::pair<std::string, AddBlock>("Up", Up)),
    [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace dpipe::nn

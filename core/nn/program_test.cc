#include "core/nn/program.h"

#include <algorithm>
#include <set>

#include "core/base/philox.h"
#include "core/nn/program_builder.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

// A node with a type but no computation, for tests of the graph alone.
class AbstractNode : public Node {
 public:
  explicit AbstractNode(ValueType output, int64_t multiply_adds = 0)
      : output_(std::move(output)), multiply_adds_(multiply_adds) {}
  absl::string_view kind() const override { return "abstract"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext&) const override {
    roofline::OpWork op;
    op.forward.macs = multiply_adds_;
    return {{op}};
  }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor>,
                                 SavedTensors*) const override {
    return absl::UnimplementedError("abstract");
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor&) const override {
    return absl::UnimplementedError("abstract");
  }

 private:
  const ValueType output_;
  const int64_t multiply_adds_;
};

std::unique_ptr<AbstractNode> Abstract(int64_t width = 4, int64_t multiply_adds = 0) {
  return std::make_unique<AbstractNode>(ValueType{Shape({width}), Element::kCompute},
                                        multiply_adds);
}

std::vector<int> Ids(absl::Span<const ValueId> ids) {
  std::vector<int> values;
  for (ValueId id : ids) values.push_back(id.value());
  return values;
}

// in -> a -> b -> c, with a skip from a to c, and a second input t read by a and c.
Program WithSkip() {
  ProgramBuilder builder("skip");
  const ValueId x = builder.AddInput("x", {Shape({4}), Element::kF32});  // 0
  const ValueId t = builder.AddInput("t", {Shape(), Element::kI32});     // 1
  builder.BeginLayer("a", LayerKind::kTrainable);
  const ParameterId w = builder.AddParameter("a.weight", Shape({3, 4}), InitRule::Ones(), true);
  const ValueId a = builder.AddNode(Abstract(8, 10), {x, t}, {w});  // 2
  builder.BeginLayer("b", LayerKind::kTrainable);
  const ValueId inner = builder.AddNode(Abstract(16, 20), {a});  // 3
  const ValueId b = builder.AddNode(Abstract(2), {inner});       // 4
  builder.BeginLayer("c", LayerKind::kTrainable);
  const ParameterId v = builder.AddParameter("c.weight", Shape({5}), InitRule::Ones(), true);
  const ValueId c = builder.AddNode(Abstract(1, 5), {b, a, t}, {v});  // 5
  builder.MarkOutput(c, "y");
  return builder.Build();
}

TEST(ProgramTest, LivenessOfASkip) {
  const Program program = WithSkip();
  EXPECT_EQ(Ids(program.LiveAt(0)), std::vector<int>({}));
  EXPECT_EQ(Ids(program.LiveAt(1)), std::vector<int>({2}));
  EXPECT_EQ(Ids(program.LiveAt(2)), std::vector<int>({2, 4}));
  EXPECT_EQ(Ids(program.LiveAt(3)), std::vector<int>({}));
  EXPECT_EQ(Ids(program.GradientsAt(2)), std::vector<int>({2, 4}));
  EXPECT_EQ(Ids(program.InputsReadBy({0, 1})), std::vector<int>({0, 1}));
  EXPECT_EQ(Ids(program.InputsReadBy({1, 2})), std::vector<int>({}));
  EXPECT_EQ(Ids(program.InputsReadBy({1, 3})), std::vector<int>({1}));
  EXPECT_EQ(Ids(program.OutputsOf({0, 2})), std::vector<int>({}));
  EXPECT_EQ(Ids(program.OutputsOf({2, 3})), std::vector<int>({5}));
}

TEST(ProgramTest, SizesAndNames) {
  const Program program = WithSkip();
  EXPECT_EQ(program.ParameterCount({0, 3}), 17);
  EXPECT_EQ(program.ParameterBytes({1, 3}), 20);
  EXPECT_EQ(program.MultiplyAdds({0, 2}), 30);
  EXPECT_EQ(program.BytesPerSample(ValueId(3), DType::kBf16), 32);
  EXPECT_EQ(program.BytesPerSample(ValueId(3), DType::kF32), 64);
  EXPECT_EQ(program.BytesPerSample(ValueId(0), DType::kBf16), 16)
      << "fp32 regardless of the compute dtype";
  EXPECT_EQ(program.BytesPerSample(ValueId(1), DType::kBf16), 4);
  EXPECT_EQ(program.BatchShape(ValueId(1), 3), Shape({3}));
  EXPECT_EQ(program.InputNamed("t"), ValueId(1));
  EXPECT_EQ(program.OutputNamed("y"), ValueId(5));
  EXPECT_EQ(program.FindLayer("b"), 1);
  EXPECT_EQ(program.FindLayer("d"), -1);
  EXPECT_EQ(program.value(ValueId(3)).name, "b/abstract_0");
  EXPECT_NE(program.Summary().find("a"), std::string::npos);
}

TEST(ProgramTest, OnlyValuesAfterATrainableParameterHaveGradients) {
  ProgramBuilder builder("kinds");
  const ValueId x = builder.AddInput("x", {Shape({4}), Element::kF32});
  builder.BeginLayer("frozen", LayerKind::kFrozen);
  const ParameterId f = builder.AddParameter("f", Shape({1}), InitRule::Ones(), true);
  const ValueId frozen = builder.AddNode(Abstract(), {x}, {f});
  builder.BeginLayer("plain", LayerKind::kTrainable);
  // no parameters, so nothing to train
  const ValueId plain = builder.AddNode(Abstract(), {frozen});
  builder.BeginLayer("first", LayerKind::kTrainable);
  const ParameterId p = builder.AddParameter("p", Shape({1}), InitRule::Ones(), true);
  const ValueId first = builder.AddNode(Abstract(), {plain}, {p});
  builder.BeginLayer("through", LayerKind::kFrozenWithGradient);
  const ParameterId q = builder.AddParameter("q", Shape({1}), InitRule::Ones(), true);
  const ValueId through = builder.AddNode(Abstract(), {first, frozen}, {q});
  builder.BeginLayer("dead", LayerKind::kFrozenWithGradient);
  const ValueId untouched = builder.AddNode(Abstract(), {frozen});
  builder.MarkOutput(through, "y");
  builder.MarkOutput(untouched, "z");
  const Program program = builder.Build();
  const auto has_gradient = [&](ValueId id) { return program.value(id).has_gradient; };
  EXPECT_FALSE(has_gradient(x));
  EXPECT_FALSE(has_gradient(frozen));
  EXPECT_FALSE(has_gradient(plain));
  EXPECT_TRUE(has_gradient(first));
  EXPECT_TRUE(has_gradient(through));
  EXPECT_FALSE(has_gradient(untouched));
  const NodeInfo& node = program.node(program.value(through).producer);
  EXPECT_FALSE(node.wants_weight_grad);
  EXPECT_EQ(node.input_grad_mask, 1u) << "of `first`, not of `frozen`";
  EXPECT_EQ(Ids(program.GradientsAt(2)), std::vector<int>({}));
  EXPECT_EQ(Ids(program.GradientsAt(3)), Ids({first}));
}

TEST(ProgramBuilderDeathTest, CatchesMistakesOfModelCode) {
  const auto frozen_behind_trainable = [] {
    ProgramBuilder builder("p");
    const ValueId x = builder.AddInput("x", {Shape({4}), Element::kF32});
    builder.BeginLayer("a", LayerKind::kTrainable);
    const ParameterId p = builder.AddParameter("p", Shape({1}), InitRule::Ones(), true);
    const ValueId a = builder.AddNode(Abstract(), {x}, {p});
    builder.BeginLayer("b", LayerKind::kFrozen);
    builder.MarkOutput(builder.AddNode(Abstract(), {a}), "y");
    builder.Build();
  };
  EXPECT_DEATH(frozen_behind_trainable(), "frozen layer 'b' reads 'a/abstract_0'");
  const auto unread = [] {
    ProgramBuilder builder("p");
    const ValueId x = builder.AddInput("x", {Shape({4}), Element::kF32});
    builder.BeginLayer("a", LayerKind::kTrainable);
    builder.AddNode(Abstract(), {x});
    builder.Build();
  };
  EXPECT_DEATH(unread(), "value 'a/abstract_0' is never read");
  const auto read_output = [] {
    ProgramBuilder builder("p");
    const ValueId x = builder.AddInput("x", {Shape({4}), Element::kF32});
    builder.BeginLayer("a", LayerKind::kTrainable);
    const ParameterId p = builder.AddParameter("p", Shape({1}), InitRule::Ones(), true);
    const ValueId a = builder.AddNode(Abstract(), {x}, {p});
    builder.MarkOutput(a, "y");
    builder.MarkOutput(builder.AddNode(Abstract(), {a}), "z");
    builder.Build();
  };
  EXPECT_DEATH(read_output(), "output 'y' has a gradient and is read");
}

// Compares LiveAt with its definition on random graphs.
TEST(ProgramTest, LivenessAgreesWithBruteForce) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(seed, 0, 0, RandomPurpose::kTest);
    ProgramBuilder builder("random");
    std::vector<ValueId> values = {builder.AddInput("x", {Shape({4}), Element::kF32})};
    std::set<int> unread;
    const int num_layers = 1 + random.NextBelow(8);
    for (int layer = 0; layer < num_layers; ++layer) {
      builder.BeginLayer("layer" + std::to_string(layer), LayerKind::kTrainable);
      for (int n = random.NextBelow(4); n >= 0; --n) {
        std::vector<ValueId> inputs;
        for (int i = random.NextBelow(3); i >= 0; --i) {
          inputs.push_back(values[random.NextBelow(values.size())]);
          unread.erase(inputs.back().value());
        }
        values.push_back(builder.AddNode(Abstract(), inputs));
        unread.insert(values.back().value());
      }
    }
    for (int id : unread) builder.MarkOutput(ValueId(id), "out" + std::to_string(id));
    const Program program = builder.Build();
    for (int cut = 0; cut <= num_layers; ++cut) {
      std::set<int> expected;
      for (int layer = cut; layer < num_layers; ++layer) {
        for (int i = program.layer(layer).begin_node; i < program.layer(layer).end_node; ++i) {
          for (ValueId id : program.node(NodeId(i)).inputs) {
            const ValueInfo& value = program.value(id);
            if (!value.is_external() && value.layer < cut) expected.insert(id.value());
          }
        }
      }
      EXPECT_EQ(Ids(program.LiveAt(cut)), std::vector<int>(expected.begin(), expected.end()));
    }
  }
}

}  // namespace
}  // namespace dpipe::nn

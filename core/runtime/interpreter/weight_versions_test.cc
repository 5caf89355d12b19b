#include "core/runtime/interpreter/weight_versions.h"

#include <string>
#include <vector>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

nn::Program OneLinear() {
  nn::ProgramBuilder builder("u");
  const ValueId x = builder.AddInput("x", {Shape{2}, nn::Element::kCompute});
  builder.BeginLayer("a", nn::LayerKind::kTrainable);
  builder.MarkOutput(AddLinear(&builder, "a", x, {1, /*bias=*/false}), "loss");
  return builder.Build();
}

class WeightVersionsTest : public ::testing::Test {
 protected:
  void Set(float value) {
    ops::Weight* weight = weights_.mutable_weight(nn::ParameterId(0));
    const Tensor master = weight->master();
    for (float& x : master.span<float>()) x = value;
    weight->MarkUpdated();
  }
  float Value() const { return weights_.weight(nn::ParameterId(0)).master().data<float>()[1]; }
  // Returns the value that a pass with this version uses.
  float Seen(WeightVersions* versions, int64_t version) {
    float seen = -1;
    EXPECT_TRUE(versions
                    ->RunWith(version,
                              [&] {
                                seen = Value();
                                return absl::OkStatus();
                              })
                    .ok());
    return seen;
  }
  void Update(WeightVersions* versions, float value) {
    versions->BeginUpdate();
    Set(value);
    versions->EndUpdate();
  }

  const nn::Program program_ = OneLinear();
  nn::ParameterSet weights_{program_, program_.all_layers(), Device::Cpu()};
};

TEST_F(WeightVersionsTest, PinnedVersionsOutliveUpdates) {
  Set(10);
  WeightVersions versions(&weights_, /*shares=*/false);
  const int64_t first = versions.Pin(), again = versions.Pin();
  EXPECT_EQ(first, again);
  Update(&versions, 11);
  const int64_t second = versions.Pin();
  Update(&versions, 12);
  EXPECT_EQ(Seen(&versions, first), 10);
  EXPECT_EQ(Seen(&versions, second), 11);
  EXPECT_EQ(Seen(&versions, versions.current()), 12);
  EXPECT_EQ(Value(), 12) << "the current weights are back in their place";
  versions.Unpin(first);
  EXPECT_EQ(Seen(&versions, first), 10) << "it was pinned twice";
  versions.Unpin(first);
  versions.Unpin(second);
  EXPECT_DEATH(Seen(&versions, first), "version 0 is not pinned");
}

TEST_F(WeightVersionsTest, GradientsStayWhileAnotherVersionIsInPlace) {
  Set(10);
  WeightVersions versions(&weights_, /*shares=*/false);
  const int64_t first = versions.Pin();
  Update(&versions, 11);
  EXPECT_TRUE(versions
                  .RunWith(first,
                           [&] {
                             weights_.grad(nn::ParameterId(0))->data<float>()[0] += 3;
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_EQ(weights_.grad(nn::ParameterId(0))->data<float>()[0], 3);
}

TEST_F(WeightVersionsTest, OnePredictionServesAllPassesOfItsUpdate) {
  Set(10);
  WeightVersions versions(&weights_, /*shares=*/false);
  int predictions = 0;
  const auto predict = [&](nn::ParameterSet* copy) {
    ++predictions;
    const Tensor master = copy->weight(nn::ParameterId(0)).master();
    for (float& x : master.span<float>()) x += 100;
    return absl::OkStatus();
  };
  const auto seen = [&](int64_t update) {
    float value = -1;
    EXPECT_TRUE(versions
                    .RunPredicted(update, predict,
                                  [&] {
                                    value = Value();
                                    return absl::OkStatus();
                                  })
                    .ok());
    return value;
  };
  EXPECT_EQ(seen(3), 110);
  Update(&versions, 20);
  EXPECT_EQ(seen(3), 110);
  EXPECT_EQ(seen(4), 120);
  EXPECT_EQ(predictions, 2);
  EXPECT_EQ(Value(), 20);
}

// This rank's weights change by 4, the other's by 2: both by 3 since they were last equal.
TEST_F(WeightVersionsTest, SharingTakesTheMeanOfChanges) {
  Set(10);
  WeightVersions versions(&weights_, /*shares=*/true);
  versions.BeginStep();
  for (float base : {10.0f, 13.0f}) {
    Update(&versions, base + 4);
    EXPECT_TRUE(versions
                    .Share(2,
                           [&](absl::Span<Tensor> changes) {
                             EXPECT_EQ(changes[0].data<float>()[0], 4);
                             for (float& x : changes[0].span<float>()) x += 2;
                             return absl::OkStatus();
                           })
                    .ok());
    EXPECT_EQ(Value(), base + 3);
  }
}

// A run that continues from a saved one has different weights than at creation.
TEST_F(WeightVersionsTest, AStepBeginsWithTheWeightsOfItsTime) {
  Set(10);
  WeightVersions versions(&weights_, /*shares=*/true);
  Set(50);
  versions.BeginStep();
  Update(&versions, 54);
  EXPECT_TRUE(versions
                  .Share(1,
                         [](absl::Span<Tensor> changes) {
                           EXPECT_EQ(changes[0].data<float>()[0], 4);
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(Value(), 54);
}

}  // namespace
}  // namespace dpipe

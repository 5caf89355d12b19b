#include "core/nn/parameters.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/execution.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

Program ThreeLayers() {
  ProgramBuilder builder("three");
  ValueId x = builder.AddInput("x", {Shape({6}), Element::kCompute});
  builder.BeginLayer("frozen", LayerKind::kFrozen);
  x = AddLinear(&builder, "frozen", x, {5});
  builder.BeginLayer("a", LayerKind::kTrainable);
  x = AddLinear(&builder, "a.linear", x, {40});
  x = AddLayerNorm(&builder, "a.norm", x, {});
  builder.BeginLayer("b", LayerKind::kTrainable);
  x = AddLinear(&builder, "b.linear", x, {3, /*bias=*/false});
  builder.MarkOutput(x, "y");
  return builder.Build();
}

TEST(ParameterSetTest, HoldsItsLayersOnly) {
  const Program program = ThreeLayers();
  const ParameterSet set(program, {0, 2}, Device::Cpu());
  EXPECT_EQ(set.ids().size(), 6);
  EXPECT_EQ(set.trainable_ids().size(), 4) << "no gradients for the frozen layer";
  EXPECT_TRUE(set.Contains(ParameterId(5)));
  EXPECT_FALSE(set.Contains(ParameterId(6)));
  EXPECT_EQ(set.master_bytes(), 4 * (35 + 240 + 80));
  EXPECT_EQ(set.grad_bytes(), 4 * (240 + 80));
}

// Ranks that hold different layers must sum rows of equal length.
TEST(ParameterSetTest, GradientsLieInOneRow) {
  const Program program = ThreeLayers();
  ParameterSet whole(program, program.all_layers(), Device::Cpu());
  ParameterSet last(program, {2, 3}, Device::Cpu());
  EXPECT_FALSE(whole.GradRow({0, 1}).defined()) << "a frozen layer";
  // 200, 40, 40 and 40 numbers, and 120.
  EXPECT_EQ(whole.GradRow({1, 2}).shape(), Shape({256 + 3 * 64}));
  EXPECT_EQ(whole.GradRow({0, 3}).shape(), Shape({256 + 3 * 64 + 128}));
  EXPECT_EQ(whole.GradRow({2, 3}).shape(), last.GradRow({2, 3}).shape());
  float value = 0;
  for (ParameterId id : whole.trainable_ids()) {
    ++value;
    for (float& x : whole.grad(id)->span<float>()) x = value;
    const auto address = reinterpret_cast<uintptr_t>(whole.grad(id)->raw_data());
    EXPECT_EQ(address % 64, 0u) << id;
  }
  const absl::Span<const float> row = whole.GradRow({1, 3}).span<float>();
  EXPECT_EQ(row[199], 1);
  EXPECT_EQ(row[200], 0) << "belongs to no parameter";
  EXPECT_EQ(row[255], 0);
  EXPECT_EQ(row[256], 2);
  EXPECT_EQ(whole.GradRow({2, 3}).data<float>()[0], value);
  whole.ZeroGrads();
  for (float x : row) EXPECT_EQ(x, 0);
}

TEST(ParameterSetTest, InitDoesNotDependOnThePartition) {
  const Program program = ThreeLayers();
  ParameterSet whole(program, program.all_layers(), Device::Cpu());
  ParameterSet last(program, {2, 3}, Device::Cpu());
  whole.InitRandom(7);
  last.InitRandom(7);
  const ParameterId id = last.ids()[0];
  EXPECT_EQ(std::memcmp(whole.weight(id).master().raw_data(), last.weight(id).master().raw_data(),
                        4 * 120),
            0);
  last.InitRandom(8);
  EXPECT_NE(std::memcmp(whole.weight(id).master().raw_data(), last.weight(id).master().raw_data(),
                        4 * 120),
            0);
}

TEST(ParameterSetTest, InitFollowsPyTorchsRules) {
  const Program program = ThreeLayers();
  ParameterSet set(program, program.all_layers(), Device::Cpu());
  set.InitRandom(1);
  const double bound = 1 / std::sqrt(5.0);  // a.linear has 5 inputs
  double sum_of_squares = 0;
  for (float x : set.weight(ParameterId(2)).master().span<float>()) {
    EXPECT_LE(std::fabs(x), bound);
    sum_of_squares += x * x;
  }
  EXPECT_NEAR(sum_of_squares / 200, bound * bound / 3, 0.2 * bound * bound / 3);
  for (float x : set.weight(ParameterId(4)).master().span<float>()) EXPECT_EQ(x, 1);
  for (float x : set.weight(ParameterId(5)).master().span<float>()) EXPECT_EQ(x, 0);
  EXPECT_TRUE(program.parameter(ParameterId(2)).decay);
  EXPECT_FALSE(program.parameter(ParameterId(3)).decay) << "a bias";
  EXPECT_FALSE(program.parameter(ParameterId(4)).decay) << "a norm";
}

// Enough numbers for several threads, which may draw parameters in any order.
TEST(ParameterSetTest, InitDrawsEachParameterFromItsOwnStream) {
  ProgramBuilder builder("wide");
  ValueId x = builder.AddInput("x", {Shape({600}), Element::kCompute});
  builder.BeginLayer("all", LayerKind::kTrainable);
  for (int i = 0; i < 6; ++i) x = AddLinear(&builder, absl::StrCat("all.", i), x, {600 + 10 * i});
  builder.MarkOutput(x, "y");
  const Program program = builder.Build();
  ParameterSet set(program, program.all_layers(), Device::Cpu());
  ASSERT_GE(set.master_bytes(), 8 << 20);
  set.InitRandom(3);
  for (ParameterId id : set.ids()) {
    const ParameterInfo& info = program.parameter(id);
    ASSERT_EQ(info.init.kind, InitRule::Kind::kUniform);
    uint64_t key = 14695981039346656037u;  // FNV-1a of the name
    for (char c : info.name) key = (key ^ static_cast<unsigned char>(c)) * 1099511628211u;
    RandomStream random(3, key, 0, RandomPurpose::kInit);
    for (float value : set.weight(id).master().span<float>()) {
      ASSERT_EQ(value, info.init.scale * (2 * random.NextUniform() - 1)) << info.name;
    }
  }
}

TEST(ParameterSetTest, CollectsAndLoads) {
  const Program program = ThreeLayers();
  ParameterSet a(program, program.all_layers(), Device::Cpu());
  ParameterSet b(program, {1, 3}, Device::Cpu());
  a.InitRandom(1);
  b.InitRandom(2);
  std::map<std::string, Tensor> tensors;
  a.Collect(&tensors);
  EXPECT_EQ(tensors.size(), 7);
  ASSERT_TRUE(b.Load(tensors).ok());
  for (ParameterId id : b.ids()) {
    const Tensor& master = a.weight(id).master();
    EXPECT_EQ(std::memcmp(master.raw_data(), b.weight(id).master().raw_data(), master.size_bytes()),
              0);
  }
  tensors.erase("a.norm.bias");
  tensors["b.linear.weight"] = Tensor::Zeros(Device::Cpu(), Shape({40, 3}), DType::kF32);
  EXPECT_EQ(b.Load(tensors).message(),
            "parameters of three: 'a.norm.bias' is missing; 'b.linear.weight' is fp32 [40, 3], "
            "expected fp32 [3, 40]");
}

TEST(ParameterSetTest, SharingTakesNoCopies) {
  const Program program = ThreeLayers();
  ParameterSet set(program, program.all_layers(), Device::Cpu());
  set.InitRandom(3);
  std::map<std::string, Tensor> tensors;
  set.Collect(&tensors);
  const auto shared = ParameterSet::Sharing(program, {1, 3}, Device::Cpu(), tensors);
  ASSERT_TRUE(shared.ok()) << shared.status();
  for (ParameterId id : (*shared)->ids()) {
    const std::string& name = program.parameter(id).name;
    EXPECT_EQ((*shared)->weight(id).master().raw_data(), tensors[name].raw_data()) << name;
  }
  EXPECT_TRUE((*shared)->HasGrads({1, 3}));
  tensors.erase("b.linear.weight");
  const auto missing = ParameterSet::Sharing(program, {1, 3}, Device::Cpu(), tensors);
  EXPECT_EQ(missing.status().message(), "parameters of three: 'b.linear.weight' is missing");
}

TEST(ParameterSetTest, ShardsAreLoadedAndCollected) {
  const Program program = ThreeLayers();
  ParameterSet whole(program, {1, 3}, Device::Cpu());
  whole.InitRandom(1);
  std::map<std::string, Tensor> tensors, joined;
  whole.Collect(&tensors);
  int64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const auto shards = ParameterSet::OfShards(program, {1, 3}, Device::Cpu(), {i, 3});
    ASSERT_TRUE(shards->Load(tensors).ok());
    EXPECT_EQ(shards->trainable_ids(), whole.trainable_ids());
    EXPECT_EQ(shards->grad(shards->ids()[0])->size_bytes(),
              shards->weight(shards->ids()[0]).master().size_bytes());
    shards->Collect(&joined);
    bytes += shards->master_bytes();
  }
  EXPECT_EQ(bytes, whole.master_bytes());
  ASSERT_EQ(joined.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(joined[name].shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(joined[name].raw_data(), tensor.raw_data(), tensor.size_bytes()), 0);
  }
}

TEST(ParameterSetTest, OnDemandMemoryIsGivenBack) {
  const Program program = ThreeLayers();
  const auto device = Device::Cpu();
  const auto set = ParameterSet::OnDemand(program, program.all_layers(), device);
  EXPECT_FALSE(set->HasMasters({0, 1}));
  EXPECT_EQ(device->allocator().stats().allocated_bytes, 0);
  set->AllocateMasters({0, 2});
  set->AllocateGrads({0, 2});
  EXPECT_TRUE(set->HasMasters({0, 2}));
  EXPECT_TRUE(set->HasGrads({0, 2}));
  EXPECT_FALSE(set->HasMasters({1, 3}));
  EXPECT_EQ(set->master_bytes(), 4 * (35 + 240 + 80));
  EXPECT_EQ(set->grad_bytes(), 4 * (240 + 80));
  EXPECT_EQ(set->grad(ParameterId(2))->data<float>()[7], 0);
  set->ReleaseMasters({0, 2});
  EXPECT_FALSE(set->HasMasters({1, 2}));
  set->ReleaseGrads({0, 2});
  EXPECT_EQ(device->allocator().stats().allocated_bytes, 0);
}

// A base that adapters adapt, between trained layers.
Program Adapted() {
  ProgramBuilder builder("adapted");
  ValueId x = builder.AddInput("x", {Shape({24}), Element::kCompute});
  builder.BeginLayer("first", LayerKind::kTrainable);
  x = AddLinear(&builder, "first", x, {32});
  for (const char* name : {"a", "b"}) {
    builder.BeginLayer(name, LayerKind::kTrainable);
    LoraSpec lora;
    lora.rank = 2;
    builder.FreezeParameters(true);
    x = AddLayerNorm(&builder, absl::StrCat(name, ".norm"), x, {});
    builder.FreezeParameters(false);
    x = AddLinearWithLora(&builder, absl::StrCat(name, ".linear"), x, {32}, lora);
  }
  builder.MarkOutput(x, "y");
  return builder.Build();
}

ParameterId Named(const Program& program, const std::string& name) {
  for (int i = 0; i < program.num_parameters(); ++i) {
    if (program.parameter(ParameterId(i)).name == name) return ParameterId(i);
  }
  ADD_FAILURE() << name;
  return ParameterId(0);
}

TEST(ParameterSetTest, TrainableParametersAloneMayBeSharded) {
  Program program = Adapted();
  program.StoreFrozen(ops::WeightStorage::kInt8);
  const LayerRange layers = program.all_layers();
  const int64_t trained_bytes = 4 * program.TrainableParameterCount(layers);
  const ParameterSourcePtr source = RandomSource(3);
  int64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const auto shards = ParameterSet::OfShards(program, layers, Device::Cpu(), {i, 3},
                                               /*trainable_only=*/true);
    EXPECT_EQ(shards->ids(), shards->trainable_ids());
    ASSERT_TRUE(shards->Load(*source).ok());
    bytes += shards->master_bytes();
    EXPECT_EQ(shards->grad_bytes(), shards->master_bytes());
  }
  EXPECT_EQ(bytes, trained_bytes);

  ParameterSet whole(program, layers, Device::Cpu());
  ASSERT_TRUE(whole.Load(*source).ok());
  const auto set = ParameterSet::OnDemand(program, layers, Device::Cpu());
  ASSERT_TRUE(set->KeepFrozen(*source).ok());
  EXPECT_EQ(set->kept_ids().size() + set->trainable_ids().size(), set->ids().size());
  EXPECT_EQ(set->master_bytes(), whole.master_bytes() - trained_bytes);
  EXPECT_FALSE(set->HasMasters(layers));
  set->AllocateMasters(layers);
  EXPECT_TRUE(set->HasMasters(layers));
  EXPECT_EQ(set->master_bytes(), whole.master_bytes());
  set->ReleaseMasters(layers);
  EXPECT_EQ(set->master_bytes(), whole.master_bytes() - trained_bytes);
  for (ParameterId id : set->kept_ids()) {
    const Tensor kept = set->weight(id).As(DType::kF32), own = whole.weight(id).As(DType::kF32);
    EXPECT_EQ(std::memcmp(kept.raw_data(), own.raw_data(), own.size_bytes()), 0);
  }
}

TEST(ParameterSetTest, FrozenWeightsOfProductsMayBeKeptInOtherTypes) {
  Program program = Adapted();
  const int64_t plain_bytes = program.ParameterBytes(program.all_layers());
  program.StoreFrozen(ops::WeightStorage::kInt8);
  for (const auto& [name, storage] : {std::make_pair("a.linear.weight", ops::WeightStorage::kInt8),
                                      {"a.linear.bias", ops::WeightStorage::kFp32},
                                      {"a.norm.weight", ops::WeightStorage::kFp32},
                                      {"a.linear.lora_A.weight", ops::WeightStorage::kFp32},
                                      {"first.weight", ops::WeightStorage::kFp32}}) {
    EXPECT_TRUE(program.parameter(Named(program, name)).storage == storage) << name;
  }
  // Two weights of 1024 numbers in 16 blocks.
  EXPECT_EQ(program.ParameterBytes(program.all_layers()), plain_bytes - 2 * (4096 - 1024 - 64));
  ParameterSet set(program, program.all_layers(), Device::Cpu());
  EXPECT_EQ(set.master_bytes(), program.ParameterBytes(program.all_layers()));
  set.InitRandom(3);
  std::map<std::string, Tensor> tensors, again;
  set.Collect(&tensors);
  // Copies, sets that read one layer at a time, and sets that load decoded values have the bits.
  const auto expect_same = [&](const ParameterSet& other) {
    again.clear();
    other.Collect(&again);
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(std::memcmp(again[name].raw_data(), tensor.raw_data(), tensor.size_bytes()), 0)
          << name;
    }
  };
  expect_same(*CopyParameters(set, {program.all_layers()}, Device::Cpu()));
  const auto missing = ParameterSet::OnDemand(program, program.all_layers(), Device::Cpu());
  ASSERT_TRUE(missing->LoadMissing(program.all_layers(), *RandomSource(3)).ok());
  expect_same(*missing);
  ParameterSet loaded(program, program.all_layers(), Device::Cpu());
  ASSERT_TRUE(loaded.Load(tensors).ok());
  expect_same(loaded);
  const auto sharing = ParameterSet::Sharing(program, program.all_layers(), Device::Cpu(), tensors);
  ASSERT_TRUE(sharing.ok()) << sharing.status();
  expect_same(**sharing);
  // Shards stay in fp32.
  const auto shard = ParameterSet::OfShards(program, {1, 2}, Device::Cpu(), {0, 2});
  EXPECT_TRUE(shard->weight(Named(program, "a.linear.weight")).storage() ==
              ops::WeightStorage::kFp32);
  EXPECT_EQ(ParameterSet::StandIn(program, {1, 2}, Device::Cpu(), 1 << 20)->master_bytes(),
            program.ParameterBytes({1, 2}));
}

// Adapters and inputs get the gradients of an fp32 program with the decoded values, bit for bit.
TEST(ParameterSetTest, GradientsPassThroughWeightsInOtherTypes) {
  for (const auto storage : {ops::WeightStorage::kBf16, ops::WeightStorage::kInt8}) {
    const Program plain = Adapted();
    Program program = Adapted();
    program.StoreFrozen(storage);
    ParameterSet kept(program, program.all_layers(), Device::Cpu());
    kept.InitRandom(5);
    std::map<std::string, Tensor> tensors;
    kept.Collect(&tensors);
    for (const char* name : {"a", "b"}) {
      RandomStream random(1, 0, 0, RandomPurpose::kTest);
      for (float& x : tensors[absl::StrCat(name, ".linear.lora_B.weight")].span<float>()) {
        x = random.NextNormal();
      }
    }
    ParameterSet decoded(plain, plain.all_layers(), Device::Cpu());
    ASSERT_TRUE(kept.Load(tensors).ok() && decoded.Load(tensors).ok());
    const ValueMap inputs = RandomInputs(program, Device::Cpu(), 6, DType::kF32, 2, /*seed=*/7);
    std::vector<Tensor> outputs;
    for (ParameterSet* set : {&kept, &decoded}) {
      const Program& own = set->program();
      ValueMap values = inputs, grads;
      RangeState state;
      ASSERT_TRUE(Forward(own, own.all_layers(), *set, {}, &values, &state).ok());
      const ValueId y = own.OutputNamed("y");
      outputs.push_back(values[y]);
      grads[y] = values[y];
      ASSERT_TRUE(Backward(own, own.all_layers(), set, &state, &grads).ok());
    }
    EXPECT_EQ(std::memcmp(outputs[0].raw_data(), outputs[1].raw_data(), outputs[0].size_bytes()),
              0);
    for (ParameterId id : kept.trainable_ids()) {
      const Tensor &a = *kept.grad(id), &b = *decoded.grad(id);
      EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()), 0)
          << program.parameter(id).name;
    }
    EXPECT_TRUE(CheckGradients(program, &kept, inputs, {}).ok());
  }
}

}  // namespace
}  // namespace dpipe::nn

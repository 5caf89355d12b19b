#include "models/lora/lora.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/base/philox.h"
#include "core/nn/execution.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

UNetConfig SmallConfig() {
  return *ParseUNetConfig(R"({"in_channels": 4, "out_channels": 4, "sample_size": 8,
      "block_out_channels": [8, 16], "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
      "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "layers_per_block": 1,
      "attention_head_dim": 2, "cross_attention_dim": 12, "norm_num_groups": 4,
      "use_linear_projection": true})",
                          "config.json");
}

nn::Program MakeUNet(const nn::LoraSpec& lora) {
  const diffusion::DiffusionObjective objective(*diffusion::NoiseSchedule::Create({}));
  return *BuildUNetForTraining(SmallConfig(), {8, 8, 5}, objective, lora);
}

// Losses and the gradients of all trained parameters, by name.
struct Passes {
  Tensor loss;
  NamedTensors grads;
};

Passes RunPasses(const nn::Program& program, const NamedTensors& values) {
  const auto cpu = Device::Cpu();
  nn::ParameterSet parameters(program, program.all_layers(), cpu);
  EXPECT_TRUE(parameters.Load(values).ok());
  nn::ValueMap inputs = nn::RandomInputs(program, cpu, 2, DType::kF32, 1000, 5);
  nn::RangeState state;
  EXPECT_TRUE(nn::Forward(program, program.all_layers(), parameters, {}, &inputs, &state).ok());
  Passes passes;
  const ValueId loss = program.OutputNamed("loss");
  passes.loss = inputs.at(loss);
  nn::ValueMap grads;
  grads[loss] = Tensor::FromHost<float>(cpu, {2}, {0.5f, 0.5f});
  EXPECT_TRUE(nn::InputGrad(program, program.all_layers(), parameters, &state, &grads).ok());
  EXPECT_TRUE(nn::WeightGrad(program, program.all_layers(), &parameters, &state).ok());
  for (nn::ParameterId id : parameters.trainable_ids()) {
    passes.grads[program.parameter(id).name] = *parameters.grad(id);
  }
  return passes;
}

// Every parameter is random, including the adapters' up parts if `with_ups`.
NamedTensors RandomValues(const nn::Program& program, bool with_ups) {
  nn::ParameterSet parameters(program, program.all_layers(), Device::Cpu());
  parameters.InitRandom(3);
  NamedTensors values;
  parameters.Collect(&values);
  uint64_t key = 0;
  for (auto& [name, tensor] : values) {
    RandomStream random(7, ++key, 0, RandomPurpose::kTest);
    if (!with_ups || name.find(nn::kLoraUp) == std::string::npos) continue;
    for (float& x : tensor.span<float>()) x = 0.1f * random.NextNormal();
  }
  return values;
}

TEST(LoraTest, OnlyAdaptersAreTrained) {
  const nn::Program program = MakeUNet({4});
  int adapters = 0;
  for (int i = 0; i < program.num_parameters(); ++i) {
    const nn::ParameterInfo& info = program.parameter(nn::ParameterId(i));
    EXPECT_EQ(info.trainable, IsLoraParameter(info.name)) << info.name;
    adapters += info.trainable;
  }
  // Two blocks down and up at the first level, and the mid block: 1 + 2 + 1 transformers. Each has
  // two attentions with four projections of two parts.
  EXPECT_EQ(adapters, 4 * 2 * 4 * 2);
  EXPECT_EQ(program.TrainableParameterCount(program.all_layers()),
            // q, k, v and out of self-attention, and q and out of cross-attention: rank x 2 widths;
            // k and v of cross-attention: rank x (width + 12). Widths are 8 (three times) and 16.
            4 * (3 * (6 * 16 + 2 * 20) + (6 * 32 + 2 * 28)));
}

TEST(LoraTest, UntrainedAdaptersChangeNoBit) {
  const nn::Program adapted = MakeUNet({4, 0.5f}), plain = MakeUNet({});
  const NamedTensors values = RandomValues(adapted, /*with_ups=*/false);
  const Tensor a = RunPasses(adapted, values).loss,
               b = RunPasses(plain, SplitLora(values).base).loss;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a.data<float>()[i], b.data<float>()[i]);
}

TEST(LoraTest, MergedWeightsComputeTheSame) {
  const nn::Program adapted = MakeUNet({4, 0.5f}), plain = MakeUNet({});
  const NamedTensors values = RandomValues(adapted, /*with_ups=*/true);
  const SplitParameters split = SplitLora(values);
  const NamedTensors merged = *MergeLora(split.base, split.adapters, 0.5f);
  const Tensor a = RunPasses(adapted, values).loss, b = RunPasses(plain, merged).loss;
  const Tensor base = RunPasses(plain, split.base).loss;
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 2e-5 * std::abs(b.data<float>()[i]));
    EXPECT_GT(std::abs(base.data<float>()[i] - b.data<float>()[i]),
              1e-4 * std::abs(b.data<float>()[i]));
  }
}

// The gradient dW of the merged weight W + s B A gives both: dB = s dW A^T, dA = s B^T dW.
TEST(LoraTest, GradientsFollowFromTheMergedWeights) {
  constexpr float kScale = 0.5f;
  const nn::Program adapted = MakeUNet({4, kScale}), plain = MakeUNet({});
  const NamedTensors values = RandomValues(adapted, /*with_ups=*/true);
  const SplitParameters split = SplitLora(values);
  const NamedTensors whole = RunPasses(plain, *MergeLora(split.base, split.adapters, kScale)).grads;
  const NamedTensors grads = RunPasses(adapted, values).grads;
  ASSERT_EQ(grads.size(), split.adapters.size());
  for (const auto& [name, grad] : grads) {
    const bool is_up = name.find(nn::kLoraUp) != std::string::npos;
    const std::string layer = name.substr(0, name.find(".lora_"));
    const Tensor& dw = whole.at(layer + ".weight");
    const Tensor& other = values.at(layer + (is_up ? nn::kLoraDown : nn::kLoraUp));
    const int64_t rank = 4, out = dw.dim(0), in = dw.dim(1);
    double error = 0, size = 0;
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t k = 0; k < (is_up ? out : in); ++k) {
        double expected = 0;
        for (int64_t j = 0; j < (is_up ? in : out); ++j) {
          expected += is_up ? dw.data<float>()[k * in + j] * other.data<float>()[r * in + j]
                            : other.data<float>()[j * rank + r] * dw.data<float>()[j * in + k];
        }
        expected *= kScale;
        const double got = grad.data<float>()[is_up ? k * rank + r : r * in + k];
        error += (got - expected) * (got - expected), size += expected * expected;
      }
    }
    EXPECT_GT(size, 0) << name;
    EXPECT_LT(std::sqrt(error / size), 1e-4) << name;
  }
}

TEST(LoraTest, SplitsAtEveryCut) {
  const nn::Program program = MakeUNet({2});
  const auto cpu = Device::Cpu();
  nn::ParameterSet parameters(program, program.all_layers(), cpu);
  ASSERT_TRUE(parameters.Load(RandomValues(program, /*with_ups=*/true)).ok());
  const nn::ValueMap inputs = nn::RandomInputs(program, cpu, 2, DType::kF32, 1000, 5);
  EXPECT_EQ(nn::CheckSplits(program, &parameters, inputs, {}, 1), absl::OkStatus());
}

std::string TestFile(const char* name) { return std::string(std::getenv("TEST_TMPDIR")) + name; }

TEST(LoraFileTest, RoundTrip) {
  const NamedTensors adapters =
      SplitLora(RandomValues(MakeUNet({4, 0.5f}), /*with_ups=*/true)).adapters;
  const std::string path = TestFile("/lora.safetensors");
  LoraTargets targets;
  targets.unet = AdaptableLayers(MakeUNet({4, 0.5f}));
  for (const LoraFormat format : {LoraFormat::kDiffusers, LoraFormat::kKohya}) {
    ASSERT_TRUE(SaveLora(path, adapters, 0.5f, format, StoredFormat::kFp32).ok());
    const auto same = LoadLora(path, 0.5f, targets);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_TRUE(same->notes.empty());
    ASSERT_EQ(same->unet.size(), adapters.size());
    for (const auto& [name, tensor] : adapters) {
      EXPECT_EQ(tensor.shape(), same->unet.at(name).shape());
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        ASSERT_EQ(tensor.data<float>()[i], same->unet.at(name).data<float>()[i]) << name;
      }
    }
    // Files for other readers include the scale.
    const NamedTensors others = LoadLora(path, 1, targets)->unet;
    const std::string up = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q.lora_B.weight";
    EXPECT_EQ(others.at(up).data<float>()[0], 0.5f * adapters.at(up).data<float>()[0]);
  }
}

// kohya.safetensors has the names that kohya-ss's tools give the layers (testdata/make_goldens.py).
TEST(LoraFileTest, KohyasNames) {
  const std::string up = "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0";
  NamedTensors adapters;
  adapters[up + nn::kLoraDown] = Tensor::Zeros(Device::Cpu(), {2, 96}, DType::kF32);
  adapters[up + nn::kLoraUp] = Tensor::Zeros(Device::Cpu(), {96, 2}, DType::kF32);
  const std::string path = TestFile("/kohya.safetensors");
  ASSERT_TRUE(SaveLora(path, adapters, 1.5f, LoraFormat::kKohya, StoredFormat::kFp16).ok());
  const auto written = SafetensorsFile::Open(path);
  const auto golden = SafetensorsFile::Open("models/lora/testdata/kohya.safetensors");
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(written->tensors().size(), 3u);
  for (const SafetensorsView& view : written->tensors()) {
    const SafetensorsView* same = golden->Find(view.name);
    ASSERT_NE(same, nullptr) << view.name;
    EXPECT_EQ(view.shape, same->shape) << view.name;
  }
  const auto alpha = written->Find(KohyaLayerName(up) + ".alpha");
  ASSERT_NE(alpha, nullptr);
  EXPECT_EQ(ToFp32(*alpha, Device::Cpu())->data<float>()[0], 3.0f);
}

Tensor Numbers(const Shape& shape) {
  Tensor tensor = Tensor::Empty(Device::Cpu(), shape, DType::kF32);
  float next = 1;
  for (float& x : tensor.span<float>()) x = next++;
  return tensor;
}

// A matrix product; its columns are a convolution's input channels and taps.
TEST(MergeLoraTest, Convolutions) {
  const struct {
    Shape weight, down, up;
  } cases[] = {
      {{3, 2, 3, 3}, {2, 2, 3, 3}, {3, 2, 1, 1}}, {{3, 2, 3, 3}, {2, 2, 3, 3}, {3, 2}},
      {{3, 2, 1, 1}, {2, 2, 1, 1}, {3, 2, 1, 1}}, {{3, 2, 1, 1}, {2, 2}, {3, 2}},
      {{3, 2}, {2, 2, 1, 1}, {3, 2, 1, 1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.weight.ToString());
    const Tensor weight = Numbers(c.weight), down = Numbers(c.down), up = Numbers(c.up);
    const auto merged =
        MergeLora({{"a.weight", weight}}, {{"a.lora_A.weight", down}, {"a.lora_B.weight", up}}, 2);
    ASSERT_TRUE(merged.ok()) << merged.status();
    const Tensor& sum = merged->at("a.weight");
    EXPECT_EQ(sum.shape(), c.weight);
    const int64_t columns = weight.num_elements() / 3;
    for (int64_t o = 0; o < 3; ++o) {
      for (int64_t i = 0; i < columns; ++i) {
        const float product = up.data<float>()[2 * o] * down.data<float>()[i] +
                              up.data<float>()[2 * o + 1] * down.data<float>()[columns + i];
        EXPECT_EQ(sum.data<float>()[o * columns + i],
                  weight.data<float>()[o * columns + i] + 2 * product);
      }
    }
  }
}

// Compares with the definition in double, in pieces of 1280 rows and fewer.
TEST(MergeLoraTest, EqualsTheDefinition) {
  constexpr int64_t kOut = 1400, kIn = 70, kRank = 33;
  constexpr float kScale = 0.7f;
  NamedTensors base, adapters;
  const auto random = [](const Shape& shape, uint64_t key) {
    Tensor tensor = Tensor::Empty(Device::Cpu(), shape, DType::kF32);
    RandomStream stream(11, key, 0, RandomPurpose::kTest);
    for (float& x : tensor.span<float>()) x = stream.NextNormal();
    return tensor;
  };
  const Tensor weight = base["a.weight"] = random({kOut, kIn}, 1);
  const Tensor other = base["b.weight"] = random({2, 2}, 4);
  const Tensor up = adapters["a.lora_B.weight"] = random({kOut, kRank}, 2);
  const Tensor down = adapters["a.lora_A.weight"] = random({kRank, kIn}, 3);
  const Tensor before = weight.Clone();
  const auto merged = MergeLora(base, adapters, kScale);
  ASSERT_TRUE(merged.ok()) << merged.status();
  for (int64_t o = 0; o < kOut; ++o) {
    for (int64_t i = 0; i < kIn; ++i) {
      double sum = 0, size = 0;
      for (int64_t r = 0; r < kRank; ++r) {
        const double term =
            double{up.data<float>()[o * kRank + r]} * down.data<float>()[r * kIn + i];
        sum += term, size += std::fabs(term);
      }
      const double expected = before.data<float>()[o * kIn + i] + kScale * sum;
      // Roundings of the scaled up part, of each product's sums, and of the result.
      const double bound = (kRank + 3) * 0x1p-24 * (kScale * size + std::fabs(expected));
      ASSERT_NEAR(merged->at("a.weight").data<float>()[o * kIn + i], expected, bound);
    }
  }
  // The base is unchanged, and shared if nothing adapts it.
  EXPECT_EQ(std::memcmp(weight.raw_data(), before.raw_data(), weight.size_bytes()), 0);
  EXPECT_EQ(merged->at("b.weight").raw_data(), other.raw_data());
  // The same in place.
  ASSERT_TRUE(MergeLoraInto(adapters, kScale, &base).ok());
  EXPECT_EQ(base.at("a.weight").raw_data(), weight.raw_data());
  EXPECT_EQ(std::memcmp(weight.raw_data(), merged->at("a.weight").raw_data(), weight.size_bytes()),
            0);
}

TEST(MergeLoraTest, ConvolutionsOfOtherKernelsDoNotFit) {
  const Tensor weight = Numbers({3, 2, 3, 3}), up = Numbers({3, 2, 1, 1});
  for (const Shape& down : {Shape({2, 2, 1, 1}), Shape({2, 18}), Shape({2, 2, 3, 1})}) {
    EXPECT_FALSE(MergeLora({{"a.weight", weight}},
                           {{"a.lora_A.weight", Numbers(down)}, {"a.lora_B.weight", up}}, 1)
                     .ok())
        << down.ToString();
  }
}

TEST(MergeLoraTest, MismatchesAreNamed) {
  const Tensor two = Tensor::Zeros(Device::Cpu(), {2, 3}, DType::kF32);
  const auto merge = [&](const NamedTensors& base, const NamedTensors& adapters) {
    return std::string(MergeLora(base, adapters, 1).status().message());
  };
  EXPECT_THAT(merge({{"a.weight", two}}, {{"a.lora_A.weight", two}}),
              HasSubstr("there is a.lora_A.weight, but no a.lora_B.weight"));
  EXPECT_THAT(merge({{"a.weight", two}}, {{"a.lora_B.weight", two}}),
              HasSubstr("there is a.lora_B.weight, but no a.lora_A.weight"));
  EXPECT_THAT(merge({}, {{"a.lora_A.weight", two}, {"a.lora_B.weight", two}}),
              HasSubstr("but no a.weight for it to adapt"));
  EXPECT_THAT(merge({{"a.weight", two}}, {{"a.lora_A.weight", two}, {"a.lora_B.weight", two}}),
              HasSubstr("cannot adapt a weight of [2, 3]"));
}

}  // namespace
}  // namespace dpipe::models

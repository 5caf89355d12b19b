#include "models/t5/t5.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "core/ops/testing/bf16_choice_test_base.h"
#include "gtest/gtest.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {

namespace {

using ops::onednn::Bf16Choice;

TEST(T5Test, XxlsParameters) {
  const auto config = ParseT5Config(ReadTestdata("t5_xxl.json"), "t5_xxl");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto program = BuildT5Encoder(*config, 512);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters("t5_xxl.parameters"));
  int64_t count = 0;
  for (int i = 0; i < program->num_parameters(); ++i) {
    count += program->parameter(nn::ParameterId(i)).shape.num_elements();
  }
  EXPECT_EQ(count, 4762310656);
  EXPECT_EQ(program->num_layers(), 2 * 24 + 2);
  // Weights of matrices times tokens, and two products of 512 x 512 scores per block.
  EXPECT_NEAR(program->MultiplyAdds(program->all_layers()) * 1e-12,
              (512 * 24 * (4 * 4096e-6 * 4096e-6 + 3 * 4096e-6 * 10240e-6)) +
                  24 * 2 * 512e-6 * 512e-6 * 4096,
              1e-3);
}

T5Config SmallConfig() {
  T5Config config;
  config.vocab_size = 11;
  config.width = 8;
  config.head_size = 3;
  config.inner_width = 12;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_buckets = 8;
  config.max_distance = 6;
  return config;
}

TEST(T5Test, GradientsAndSplits) {
  const auto program = BuildT5Encoder(SmallConfig(), 9, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(nn::CheckGradientsAndSplits(*program, /*int_bound=*/11), absl::OkStatus());
}

TEST(T5Test, BadInputIsNamed) {
  EXPECT_EQ(BuildT5Encoder(SmallConfig(), 0).status().message(),
            "T5 encoder: 0 tokens; use at least 1");
  EXPECT_EQ(ParseT5Config(R"({"model_type": "t5", "d_model": 0, "feed_forward_proj": "relu",
                              "relative_attention_num_buckets": 6})",
                          "text_encoder_2/config.json")
                .status()
                .message(),
            "text_encoder_2/config.json: 'd_model' is 0, expected a positive integer; "
            "'feed_forward_proj' is \"relu\", supported: \"gated-gelu\" (T5 v1.1); "
            "'relative_attention_num_buckets' is 6, expected a multiple of 4 up to 128");
}

// Compares the outputs and every gradient with transformers (make_formula_goldens.py). 150 tokens
// have distances in all buckets of the position bias.
void Check(DType dtype, DeviceKind kind, Bf16Choice choice = Bf16Choice::kByCpu) {
  const auto config = ParseT5Config(ReadTestdata("t5_small.json"), "t5_small");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto device = MakeDevice(kind);
  const int64_t length = 150;
  const auto program = BuildT5Encoder(*config, length, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters("t5_small.parameters"));
  const Goldens goldens("models/testdata/t5_small.safetensors", device);
  const Tensor ids =
      FormulaIds(device, "ids", static_cast<uint32_t>(config->vocab_size), Shape({2, length}));
  const Tensor output_gradient =
      FormulaInput(device, "output_gradient", Shape({2, length, config->width}));
  ops::onednn::SetBf16Choice(choice);
  const FormulaRun run =
      RunWithFormulaWeights(*program, {{"ids", ids}}, output_gradient, {dtype, kind});
  ops::onednn::SetBf16Choice(Bf16Choice::kByCpu);
  ErrorBounds bounds = BoundsOf(*program, dtype, goldens);
  const Tensor pytorch = goldens.Get("bf16_errors");
  const float* errors = pytorch.data<float>();
  if (choice == Bf16Choice::kWidened) {
    bounds.output = std::min<double>(bounds.output, 3 * errors[0]);
    bounds.gradient_mean = std::min<double>(bounds.gradient_mean, 3 * errors[1]);
  } else if (choice == Bf16Choice::kNative) {
    // Attention then rounds probabilities and their gradients, too (attention_native.h), as PyTorch
    // does, so the number of nodes is no bound.
    bounds = {errors[0], errors[1], errors[2]};
  }
  ExpectWithin(bounds, absl::StrCat("t5_small ", DTypeName(dtype)),
               RelativeError(run.output, goldens.Get("output")),
               CompareGradients(run.gradients, goldens), goldens);
}

TEST(T5ParityTest, Fp32) { Check(DType::kF32, DeviceKind::kCpu); }
TEST(T5ParityTest, Fp32Reference) { Check(DType::kF32, DeviceKind::kCpuReference); }
TEST(T5ParityTest, Bf16) { Check(DType::kBf16, DeviceKind::kCpu, Bf16Choice::kWidened); }
TEST(T5ParityTest, Bf16Native) {
  if (!__builtin_cpu_supports("avx512bw")) GTEST_SKIP() << "the CPU has no AVX-512";
  Check(DType::kBf16, DeviceKind::kCpu, Bf16Choice::kNative);
}

}  // namespace

}  // namespace dpipe::models

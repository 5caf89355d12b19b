// cuDNN has engines for our graphs, on GPUs of several generations. Skips where it is not
// installed.
#include "core/ops/cuda/cudnn_graphs.h"
#include "core/ops/cuda/planned_gpu.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

class CudnnPlansTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    absl::StatusOr<PlannedGpu> gpu = PlannedGpu::Open(GetParam());
    if (absl::IsNotFound(gpu.status())) GTEST_SKIP() << gpu.status();
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = std::make_unique<PlannedGpu>(*std::move(gpu));
  }

  // The workspace's size, or -1 where there is no plan.
  int64_t ExpectPlan(const CudnnContext::Describe& describe, bool exact_fp32 = false) {
    const auto plan = gpu_->Plan(describe, exact_fp32);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? (*plan)->workspace_bytes() : -1;
  }

  std::unique_ptr<PlannedGpu> gpu_;
};

// Of a U-Net: the first and last one, between, and down; the VAE's uneven padding; odd numbers of
// channels.
const Convolution kConvolutions[] = {{64, 64, 64, 4, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1},
                                     {64, 64, 64, 320, 4, 3, 3, 64, 64, 1, 1, 1, 1, 1},
                                     {64, 8, 8, 2560, 1280, 3, 3, 8, 8, 1, 1, 1, 1, 1},
                                     {64, 64, 64, 320, 320, 3, 3, 32, 32, 2, 1, 1, 1, 1},
                                     {2, 64, 64, 128, 128, 3, 3, 32, 32, 2, 0, 1, 0, 1},
                                     {3, 5, 7, 3, 5, 3, 3, 5, 7, 1, 1, 1, 1, 1}};

TEST_P(CudnnPlansTest, Convolutions) {
  for (const Convolution& c : kConvolutions) {
    for (const DType dtype : {DType::kBf16, DType::kF32}) {
      SCOPED_TRACE(::testing::Message() << c.channels << " to " << c.outputs << " channels, "
                                        << (dtype == DType::kF32 ? "fp32" : "bf16"));
      const bool exact = dtype == DType::kF32;
      ExpectPlan([&](CudnnGraph* g) { DescribeConvolution(c, dtype, g); }, exact);
      ExpectPlan([&](CudnnGraph* g) { DescribeInputGrad(c, dtype, g); }, exact);
      ExpectPlan([&](CudnnGraph* g) { DescribeFilterGrad(c, dtype, g); }, exact);
    }
  }
}

TEST_P(CudnnPlansTest, Attention) {
  // Of tokens with themselves, with a text, and odd ones.
  for (const UnmaskedAttention& a : {UnmaskedAttention{4, 5, 4096, 4096, 64, 0.125f},
                                     UnmaskedAttention{8, 10, 1024, 77, 64, 0.125f},
                                     UnmaskedAttention{3, 2, 35, 77, 40, 0.125f}}) {
    SCOPED_TRACE(::testing::Message() << a.queries << " queries, " << a.keys << " keys");
    EXPECT_LE(ExpectPlan([&](CudnnGraph* g) { DescribeAttention(a, g); }), 1 << 20);
    // Gradients are added up in order: ds lies in the workspace, and not the sums of dq in fp32.
    EXPECT_GE(ExpectPlan([&](CudnnGraph* g) { DescribeAttentionGrad(a, g); }),
              2 * a.batch * a.heads * a.queries * a.keys);
  }
}

TEST_P(CudnnPlansTest, WhatNoEngineDoesIsUnimplemented) {
  // Heads of 512: the forward pass alone has an engine.
  const UnmaskedAttention a = {1, 1, 64, 64, 512, 0.125f};
  const auto plan = gpu_->Plan([&](CudnnGraph* g) { DescribeAttentionGrad(a, g); });
  EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
}

TEST_P(CudnnPlansTest, BadPropertiesAreRefused) {
  const absl::StatusOr<const CudnnApi*> api = LoadCudnn();
  ASSERT_TRUE(api.ok());
  EXPECT_FALSE(CudnnTarget::WithProperties(**api, "{\"deviceVer\": 900}").ok());
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlansTest, ::testing::Values("a100", "l40s", "h200", "b200"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dpipe::ops::cuda

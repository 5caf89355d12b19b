// Tests that cuDNN has engines for our graphs on GPUs of several generations. Skipped if cuDNN is
// not installed.
#include "core/ops/cuda/cudnn/cudnn_graphs.h"
#include "core/ops/cuda/cudnn/planned_gpu.h"
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

  void ExpectPlan(const CudnnContext::Describe& describe, bool exact_fp32) {
    const auto plan = gpu_->Plan(describe, exact_fp32);
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
  // Returns a plan's workspace; fails if there is no plan.
  static int64_t WorkspaceOf(const absl::StatusOr<std::unique_ptr<CudnnPlan>>& plan) {
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? (*plan)->workspace_bytes() : 0;
  }

  std::unique_ptr<PlannedGpu> gpu_;
};

// A U-Net's first, last, intermediate and downsampling convolutions; uneven padding as in the VAE;
// odd numbers of channels.
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

// Self-attention, attention to a text, odd numbers of tokens; the text encoders of Stable Diffusion
// v2.1 and v1.5.
const AttentionShape kAttentions[] = {{4, 5, 4096, 4096, 64, 0.125f},
                                      {8, 10, 1024, 77, 64, 0.125f},
                                      {3, 2, 35, 77, 40, 0.125f},
                                      {64, 16, 77, 77, 64, 0.125f, /*causal=*/true},
                                      {4, 12, 77, 77, 64, 0.125f, /*causal=*/true}};

TEST_P(CudnnPlansTest, Attention) {
  for (const AttentionShape& a : kAttentions) {
    SCOPED_TRACE(::testing::Message() << a.queries << " queries, " << a.keys << " keys");
    // Scores, which are larger, are not stored: the engine recognizes the chain of operations.
    EXPECT_LE(WorkspaceOf(gpu_->PlanAttention(a)), 1024);
    // Gradients are added in a fixed order: ds is in the workspace, and the fp32 sums of dq are
    // not.
    EXPECT_GE(WorkspaceOf(gpu_->PlanAttentionGrad(a)), 2 * a.batch * a.heads * a.queries * a.keys);
  }
}

TEST_P(CudnnPlansTest, GradientsInAnyOrderNeedNoScores) {
  for (AttentionShape a : {AttentionShape{64, 5, 4096, 4096, 64, 0.125f},
                           AttentionShape{64, 10, 1024, 1024, 64, 0.125f}}) {
    SCOPED_TRACE(::testing::Message() << a.queries << " queries, " << a.keys << " keys");
    EXPECT_TRUE(IsFasterNondeterministic(a));
    a.nondeterministic = true;
    // At most fp32 sums of dq, which the engine may keep in addition to the given ones.
    EXPECT_LE(WorkspaceOf(gpu_->PlanAttentionGrad(a)),
              4 * a.batch * a.heads * a.queries * a.size + 1024);
  }
}

TEST_P(CudnnPlansTest, LargeHeads) {
  // The last level of Stable Diffusion v1.5, and a VAE.
  EXPECT_LE(WorkspaceOf(gpu_->PlanAttention({8, 8, 64, 64, 160, 0.125f})), 1024);
  EXPECT_LE(WorkspaceOf(gpu_->PlanAttention({4, 1, 4096, 4096, 512, 0.125f})), 1024);
  const auto plan = gpu_->PlanAttentionGrad({8, 8, 64, 64, 160, 0.125f});
  if (GetParam() == std::string("h200")) {
    EXPECT_TRUE(plan.ok()) << plan.status();
  } else {
    EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
  }
}

TEST_P(CudnnPlansTest, MissingEngineIsUnimplemented) {
  // Without our own check: for heads of 512, the library has only the forward pass.
  const AttentionShape a = {1, 1, 64, 64, 512, 0.125f};
  const auto plan = gpu_->Plan([&](CudnnGraph* g) { DescribeAttentionGrad(a, 9, g); });
  EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
}

TEST_P(CudnnPlansTest, InvalidPropertiesFail) {
  const absl::StatusOr<const CudnnApi*> api = LoadCudnn();
  ASSERT_TRUE(api.ok());
  EXPECT_FALSE(CudnnTarget::WithProperties(**api, "{\"deviceVer\": 900}").ok());
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlansTest, ::testing::Values("a100", "l40s", "h200", "b200"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dpipe::ops::cuda

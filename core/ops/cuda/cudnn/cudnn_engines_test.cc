// Tests the engines that cuDNN has for a graph: their order, names and exclusions. Skipped if cuDNN
// is not installed.
#include <set>

#include "core/ops/cuda/cudnn/cudnn_graphs.h"
#include "core/ops/cuda/cudnn/planned_gpu.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

constexpr Convolution kLevel0 = {64, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1};
constexpr int64_t kNoLimit = int64_t{1} << 40;

class CudnnEnginesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<PlannedGpu> gpu = PlannedGpu::Open("h200");
    if (absl::IsNotFound(gpu.status())) GTEST_SKIP() << gpu.status();
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = std::make_unique<PlannedGpu>(*std::move(gpu));
  }

  CudnnEngines EnginesFor(const CudnnContext::Describe& describe, bool exact_fp32 = false) const {
    absl::StatusOr<CudnnEngines> engines = gpu_->EnginesFor(describe, exact_fp32);
    EXPECT_TRUE(engines.ok()) << engines.status();
    return *std::move(engines);
  }

  std::unique_ptr<PlannedGpu> gpu_;
};

const CudnnContext::Describe kFilterGrad = [](CudnnGraph* graph) {
  DescribeFilterGrad(kLevel0, DType::kBf16, graph);
};

TEST_F(CudnnEnginesTest, FindsSeveralEngines) {
  CudnnEngines engines = EnginesFor(kFilterGrad);
  const auto first = engines.Next();
  ASSERT_TRUE(first.ok()) << first.status();
  std::set<std::string> names = {(*first)->engine()};
  const auto others = engines.NextQuick(7, kNoLimit);
  for (const auto& other : others) names.insert(other->engine());
  EXPECT_EQ(others.size(), 7);
  EXPECT_EQ(names.size(), 8) << "names must be unique";
}

TEST_F(CudnnEnginesTest, FindsEngineByName) {
  CudnnEngines engines = EnginesFor(kFilterGrad);
  ASSERT_TRUE(engines.Next().ok());
  const auto others = engines.NextQuick(3, kNoLimit);
  ASSERT_EQ(others.size(), 3);
  const auto again = EnginesFor(kFilterGrad).Next(others[2]->engine());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->engine(), others[2]->engine());
  EXPECT_EQ((*again)->workspace_bytes(), others[2]->workspace_bytes());
}

TEST_F(CudnnEnginesTest, UnknownNameIsUnimplemented) {
  const auto none = EnginesFor(kFilterGrad).Next("12345,");
  EXPECT_TRUE(absl::IsUnimplemented(none.status())) << none.status();
  EXPECT_NE(none.status().message().find("is not the requested engine 12345,"), std::string::npos)
      << none.status();
}

TEST_F(CudnnEnginesTest, RespectsWorkspaceLimit) {
  const auto limited = [](int64_t bytes) {
    return [bytes](CudnnGraph* graph) {
      DescribeFilterGrad(kLevel0, DType::kBf16, graph);
      graph->LimitWorkspace(bytes);
    };
  };
  CudnnEngines all = EnginesFor(kFilterGrad);
  int64_t max_bytes = 0;
  for (const auto& plan : all.NextQuick(32, kNoLimit)) {
    max_bytes = std::max(max_bytes, plan->workspace_bytes());
  }
  ASSERT_GT(max_bytes, 0);
  for (const auto& plan : EnginesFor(limited(max_bytes - 1)).NextQuick(32, kNoLimit)) {
    EXPECT_LT(plan->workspace_bytes(), max_bytes) << plan->engine();
  }
  for (const auto& plan : EnginesFor(kFilterGrad).NextQuick(32, max_bytes - 1)) {
    EXPECT_LT(plan->workspace_bytes(), max_bytes) << plan->engine();
  }
  const auto none = EnginesFor(limited(-1)).Next();
  EXPECT_TRUE(absl::IsUnimplemented(none.status())) << none.status();
  EXPECT_NE(none.status().message().find("the limit is -1"), std::string::npos) << none.status();
}

TEST_F(CudnnEnginesTest, FewerEnginesAreExact) {
  const CudnnContext::Describe convolution = [](CudnnGraph* graph) {
    DescribeConvolution(kLevel0, DType::kF32, graph);
  };
  std::set<std::string> any, exact;
  for (const auto& plan : EnginesFor(convolution).NextQuick(64, kNoLimit)) {
    any.insert(plan->engine());
  }
  for (const auto& plan : EnginesFor(convolution, /*exact_fp32=*/true).NextQuick(64, kNoLimit)) {
    exact.insert(plan->engine());
  }
  EXPECT_FALSE(exact.empty());
  EXPECT_LT(exact.size(), any.size());
}

}  // namespace
}  // namespace dpipe::ops::cuda

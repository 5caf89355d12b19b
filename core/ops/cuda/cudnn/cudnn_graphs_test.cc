// cuDNN checks descriptors when they are finalized. Skipped if the library is not installed.
#include "core/ops/cuda/cudnn/cudnn_graphs.h"

#include <cstdio>

#include "core/ops/cuda/cudnn/cudnn_plan.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

class CudnnGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const CudnnApi*> api = LoadCudnn();
    if (!api.ok()) GTEST_SKIP() << api.status();
    api_ = *api;
  }

  const CudnnApi* api_ = nullptr;
};

TEST_F(CudnnGraphsTest, GraphKeepsItsOperations) {
  const Convolution convolution = {8, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1};
  const AttentionShape attention = {8, 10, 1024, 77, 64, 0.125f};
  const AttentionShape causal = {8, 16, 77, 77, 64, 0.125f, true};
  CudnnGraph one(*api_), chain(*api_), masked(*api_);
  DescribeConvolution(convolution, DType::kBf16, &one);
  DescribeAttentionGrad(attention, 9, &chain);
  DescribeAttentionGrad(causal, 9, &masked);
  EXPECT_TRUE(one.status().ok()) << one.status();
  EXPECT_TRUE(chain.status().ok()) << chain.status();
  EXPECT_TRUE(masked.status().ok()) << masked.status();
  EXPECT_EQ(one.operations().size(), 1);
  EXPECT_EQ(chain.operations().size(), 17);
  EXPECT_EQ(masked.operations().size(), 21);
}

TEST_F(CudnnGraphsTest, InvalidGraphFailsWithCudnnReason) {
  CudnnGraph graph(*api_);
  DescribeConvolution({8, 64, 64, 320, 320, 3, 3, 63, 64, 1, 1, 1, 1, 1}, DType::kBf16, &graph);
  EXPECT_FALSE(graph.status().ok());
  EXPECT_NE(graph.status().message().find("CUDNN_STATUS_"), std::string::npos) << graph.status();
}

TEST_F(CudnnGraphsTest, MissingVersionIsNamed) {
  CudnnGraph graph(*api_);
  graph.Require(90000);
  EXPECT_TRUE(graph.status().ok());
  graph.Require(999999);
  EXPECT_TRUE(absl::IsUnimplemented(graph.status()));
  EXPECT_NE(graph.status().message().find("needs cuDNN 99.99.99 or newer, but this is 9."),
            std::string::npos)
      << graph.status();
}

// A library of a given version that always returns the same status from Finalize.
class FakeCudnn {
 public:
  explicit FakeCudnn(cudnnStatus_t status, size_t of_version = 91900) {
    refusal = status;
    version = of_version;
    api_.cudnnGetVersion = [] { return version; };
    api_.cudnnGetErrorString = [](cudnnStatus_t) { return "cuDNN's reason"; };
    api_.cudnnGetLastErrorString = [](char* message, size_t size) {
      std::snprintf(message, size, "message of the last error");
    };
    api_.cudnnBackendCreateDescriptor = [](cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* descriptor) {
      static int some = 0;
      *descriptor = &some;
      return CUDNN_STATUS_SUCCESS;
    };
    api_.cudnnBackendDestroyDescriptor = [](cudnnBackendDescriptor_t) {
      return CUDNN_STATUS_SUCCESS;
    };
    api_.cudnnBackendSetAttribute = [](cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t,
                                       const void*) { return CUDNN_STATUS_SUCCESS; };
    api_.cudnnBackendFinalize = [](cudnnBackendDescriptor_t) { return refusal; };
  }
  absl::Status Finalize(cudnnBackendDescriptorType_t type) const {
    return CudnnDescriptor(api_, type).Finalize();
  }
  const CudnnApi& api() const { return api_; }

 private:
  static cudnnStatus_t refusal;
  static size_t version;
  CudnnApi api_;
};
cudnnStatus_t FakeCudnn::refusal = CUDNN_STATUS_SUCCESS;
size_t FakeCudnn::version = 0;

TEST(UnsupportedTest, UnknownGraphsAreUnimplemented) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, CUDNN_STATUS_NOT_SUPPORTED,
        CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN}) {
    const FakeCudnn cudnn(status);
    auto graph = std::make_unique<CudnnGraph>(cudnn.api());
    DescribeConvolution({8, 64, 64, 320, 320, 3, 3, 64, 64, 1, 1, 1, 1, 1}, DType::kBf16,
                        graph.get());
    const auto plan = CudnnPlan::Create(CudnnTarget(nullptr), std::move(graph), false);
    EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
    EXPECT_NE(plan.status().message().find("cudnnBackendFinalize of 0: cuDNN's reason: message "
                                           "of the last error"),
              std::string::npos)
        << plan.status();
    EXPECT_TRUE(absl::IsUnimplemented(cudnn.Finalize(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)));
  }
}

TEST(UnsupportedTest, ErrorsStayErrors) {
  const FakeCudnn failing(CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_TRUE(absl::IsInternal(failing.Finalize(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)));
  // A descriptor of a run: its graph is known to be valid.
  const FakeCudnn strict(CUDNN_STATUS_BAD_PARAM);
  EXPECT_TRUE(absl::IsInternal(strict.Finalize(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)));
}

// True if this version is used for attention (capability_major 0) or for its gradient on GPUs of
// this capability.
bool IsUsed(size_t version, const AttentionShape& shape, int capability_major) {
  const FakeCudnn cudnn(CUDNN_STATUS_SUCCESS, version);
  CudnnGraph graph(cudnn.api());
  if (capability_major == 0) {
    DescribeAttention(shape, &graph);
  } else {
    DescribeAttentionGrad(shape, capability_major, &graph);
  }
  EXPECT_TRUE(graph.status().ok() || absl::IsUnimplemented(graph.status())) << graph.status();
  return graph.status().ok();
}

TEST(UnsupportedTest, VersionsWithAttentionBugs) {
  const AttentionShape full = {8, 5, 256, 256, 64, 0.125f}, text = {8, 5, 256, 77, 64, 0.125f};
  for (const int capability_major : {0, 8, 9, 12}) {
    EXPECT_TRUE(IsUsed(90800, full, capability_major));
    EXPECT_FALSE(IsUsed(91000, full, capability_major));
    EXPECT_FALSE(IsUsed(91001, full, capability_major));
    EXPECT_TRUE(IsUsed(91002, full, capability_major));
  }
  EXPECT_TRUE(IsUsed(90800, text, 0));
  EXPECT_FALSE(IsUsed(91500, text, 9));
  EXPECT_TRUE(IsUsed(91501, text, 9));
  AttentionShape nondeterministic = full;
  nondeterministic.nondeterministic = true;
  EXPECT_FALSE(IsUsed(90500, nondeterministic, 9));
  EXPECT_TRUE(IsUsed(90600, nondeterministic, 9));
  // Blackwell.
  EXPECT_TRUE(IsUsed(91701, full, 0));
  EXPECT_FALSE(IsUsed(91701, full, 10));
  EXPECT_TRUE(IsUsed(91800, full, 10));
}

TEST(UnsupportedTest, AttentionShapes) {
  const auto size = [](int64_t size) { return AttentionShape{2, 3, 5, 7, size, 0.125f}; };
  EXPECT_TRUE(CheckAttention(size(512)).ok());
  EXPECT_TRUE(absl::IsUnimplemented(CheckAttention(size(36))));
  for (const int capability_major : {8, 9, 10, 12}) {
    EXPECT_TRUE(CheckAttentionGrad(size(128), capability_major).ok());
    EXPECT_TRUE(absl::IsUnimplemented(CheckAttentionGrad(size(36), capability_major)));
    EXPECT_EQ(CheckAttentionGrad(size(160), capability_major).ok(), capability_major == 9);
    EXPECT_FALSE(CheckAttentionGrad(size(264), capability_major).ok());
    EXPECT_FALSE(CheckAttentionGrad({2, 3, 1, 1, 64, 0.125f}, capability_major).ok());
  }
  EXPECT_TRUE(CheckAttention({2, 3, 1, 1, 64, 0.125f}).ok());
}

TEST(SamplesAtOnceTest, PrefersEqualParts) {
  const auto at_once = [](int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
    return SamplesAtOnce({batch, heads, queries, keys, 64, 0.125f});
  };
  // A sample of 4096 tokens and 5 heads takes 168 MB, so 9 samples fit.
  EXPECT_EQ(at_once(9, 5, 4096, 4096), 9);
  EXPECT_EQ(at_once(10, 5, 4096, 4096), 5);
  EXPECT_EQ(at_once(64, 5, 4096, 4096), 8);
  EXPECT_EQ(at_once(62, 5, 4096, 4096), 9);  // not 31 parts of 2: too many
  EXPECT_EQ(at_once(64, 8, 4096, 4096), 4);
  EXPECT_EQ(at_once(64, 5, 4096, 77), 64);
  EXPECT_EQ(at_once(0, 5, 4096, 4096), 0);
  // A sample that exceeds the limit is processed alone.
  EXPECT_EQ(at_once(3, 10, 16384, 16384), 1);
}

TEST(SamplesAtOnceTest, AnyOrderUsesOnePart) {
  AttentionShape many = {64, 5, 4096, 4096, 64, 0.125f};
  EXPECT_TRUE(IsFasterNondeterministic(many));
  many.nondeterministic = true;
  EXPECT_EQ(SamplesAtOnce(many), 64);
  // With 256 tokens and 20 heads, the scores of 64 samples take 168 MB.
  EXPECT_FALSE(IsFasterNondeterministic({64, 20, 256, 256, 64, 0.125f}));
}

TEST(SamplesAtOnceTest, PartsBeginAtMultiplesOf16Bytes) {
  for (const int64_t queries : {4095, 4094, 4092, 8191, 20001}) {
    for (const int64_t heads : {1, 2, 3}) {
      for (const int64_t batch : {1, 7, 60, 64}) {
        const int64_t part = SamplesAtOnce({batch, heads, queries, 4096, 64, 0.125f});
        SCOPED_TRACE(::testing::Message() << batch << " samples of " << heads << " x " << queries);
        EXPECT_GE(part, 1);
        EXPECT_TRUE(part == batch || part * heads * queries % 4 == 0) << part;
        EXPECT_LE(part, batch);
      }
    }
  }
}

}  // namespace
}  // namespace dpipe::ops::cuda

#include <cstdlib>
#include <functional>
#include <string>

#include "core/cuda/cublas_lt_api.h"
#include "core/cuda/cuda_status.h"
#include "core/cuda/cudnn_api.h"
#include "core/cuda/cupti_api.h"
#include "core/cuda/driver_api.h"
#include "core/cuda/nccl_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// Each library either loads with all functions, or is reported as missing. Machines without a GPU
// may have either.
TEST(BindingsTest, LibraryLoadsOrIsReportedMissing) {
  const auto check = [](const absl::Status& status, const std::string& library) {
    if (status.ok()) return;
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot open " + library));
  };
  check(LoadDriver().status(), "libcuda.so.1");
  check(LoadCublasLt().status(), "libcublasLt.so.13");
  check(LoadCudnn().status(), "libcudnn.so.9");
  check(LoadNccl().status(), "libnccl.so.2");
  check(LoadCupti().status(), "libcupti.so.13");
}

TEST(BindingsTest, BoundFunctionsCanBeCalled) {
  const auto nccl = LoadNccl();
  if (!nccl.ok()) GTEST_SKIP() << nccl.status().message();
  int version = 0;
  ASSERT_EQ((*nccl)->ncclGetVersion(&version), ncclSuccess);
  EXPECT_GE(version, 21800) << "needed for non-blocking communicators with limited thread blocks";
}

TEST(CublasLtStatusTest, DistinguishesUnsupportedCallsFromErrors) {
  CublasLtApi api;
  api.cublasLtGetStatusString = [](cublasStatus_t) { return "the library's reason"; };
  const auto code = [&](cublasStatus_t status) {
    return CublasLtStatus(api, status, "cublasLtMatmul").code();
  };
  EXPECT_EQ(code(CUBLAS_STATUS_SUCCESS), absl::StatusCode::kOk);
  EXPECT_EQ(code(CUBLAS_STATUS_NOT_SUPPORTED), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(CUBLAS_STATUS_ARCH_MISMATCH), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(CUBLAS_STATUS_INVALID_VALUE), absl::StatusCode::kInternal);
  EXPECT_EQ(code(CUBLAS_STATUS_EXECUTION_FAILED), absl::StatusCode::kInternal);
  EXPECT_EQ(CublasLtStatus(api, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul").message(),
            "cublasLtMatmul: the library's reason");
}

// GPUs of one process cannot read each other's stream-ordered memory.
TEST(BindingsTest, NcclDoesNotAccessOtherGpusDirectly) {
  LoadNccl().status().IgnoreError();
  const char* const direct = std::getenv("NCCL_P2P_DIRECT_DISABLE");
  ASSERT_NE(direct, nullptr);
  EXPECT_EQ(std::string(direct), "1");
}

TEST(CudaStatusTest, NamesTheCallAndTheError) {
  EXPECT_TRUE(CudaStatus(cudaSuccess, "cudaMalloc").ok());
  const absl::Status full = CudaStatus(cudaErrorMemoryAllocation, "cudaMalloc(&p, n)");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "cudaMalloc(&p, n): cudaErrorMemoryAllocation: out of memory");
  EXPECT_EQ(CudaStatus(cudaErrorIllegalAddress, "x").code(), absl::StatusCode::kInternal);
}

TEST(CudaStatusTest, CountsGpusOrReportsWhyThereIsNone) {
  const auto count = CountGpus();
  if (count.ok()) {
    EXPECT_GE(*count, 1);
  } else {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(count.status().message()), HasSubstr("no GPU: "));
  }
}

}  // namespace
}  // namespace dpipe

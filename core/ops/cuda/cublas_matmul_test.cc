// Tests the choice of cuBLASLt's algorithms and their arguments, with a fake library that records
// calls.
#include "core/ops/cuda/cublas_matmul.h"

#include <cstring>
#include <map>
#include <set>

#include "core/base/files/scratch_folder.h"
#include "core/cuda/cublas_lt_api.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/ops/testing/op_testing.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::ops::cuda {
namespace {

// What one algorithm does: enqueues `work` pieces of work, or is rejected.
struct FakeAlgorithm {
  int work = 1;
  bool rejected = false;
  bool rejects_bias = false;
};

struct Call {
  int algorithm;
  void* d;
  float beta;
};

// Only one may exist at a time: the library's functions take no object.
class FakeCublas {
 public:
  explicit FakeCublas(std::vector<FakeAlgorithm> algorithms) : algorithms_(std::move(algorithms)) {
    fake = this;
  }
  FakeCublas(const FakeCublas&) = delete;

  absl::Status Multiply(const std::shared_ptr<Device>& device, const Product& product) {
    device_ = device.get();
    return internal::MultiplyByCublas(Api(), device, product);
  }
  std::vector<Call> TakeRuns() { return std::exchange(runs_, {}); }
  // Returns the attribute's last value, or 0 if it was never set.
  int64_t attribute(cublasLtMatmulDescAttributes_t name) { return attributes_[name]; }
  int64_t preference(cublasLtMatmulPreferenceAttributes_t name) { return preferences_[name]; }
  // Sets the library's status when algorithms for products with sums are requested.
  void set_sums_status(cublasStatus_t status) { sums_status_ = status; }

 private:
  template <typename T>
  static cublasStatus_t Make(T* made) {
    static int some = 0;
    *made = reinterpret_cast<T>(&some);
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t FindAlgorithms(int max_results, cublasLtMatmulHeuristicResult_t* results,
                                int* found) {
    if (attributes_[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BGRADB &&
        sums_status_ != CUBLAS_STATUS_SUCCESS) {
      return sums_status_;
    }
    for (*found = 0; *found < std::min<int>(max_results, algorithms_.size()); ++*found) {
      results[*found] = {};
      results[*found].algo.data[0] = *found;
      results[*found].workspaceSize = 1024;
    }
    return CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t Multiply(const cublasLtMatmulAlgo_t& settings, float beta, void* d) {
    const int number = static_cast<int>(settings.data[0]);
    const bool has_bias = attributes_[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS;
    if (algorithms_[number].rejected || (has_bias && algorithms_[number].rejects_bias)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (int i = 0; i < algorithms_[number].work; ++i) device_->FillZero(d, 4);
    runs_.push_back({number, d, beta});
    return CUBLAS_STATUS_SUCCESS;
  }

  // Devices keep a reference longer than this object exists.
  static const CublasLtApi& Api() {
    static const CublasLtApi* const api = new CublasLtApi(MakeApi());
    return *api;
  }
  static CublasLtApi MakeApi() {
    CublasLtApi api;
    api.cublasLtCreate = [](cublasLtHandle_t* handle) {
      static int some = 0;
      *handle = reinterpret_cast<cublasLtHandle_t>(&some);
      return CUBLAS_STATUS_SUCCESS;
    };
    api.cublasLtDestroy = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
    api.cublasLtGetVersion = []() -> size_t { return 130100; };
    api.cublasLtGetStatusString = [](cublasStatus_t) { return "cuBLAS's reason"; };
    api.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                      cudaDataType_t) {
      fake->attributes_.clear();
      return Make(made);
    };
    api.cublasLtMatmulDescDestroy = [](cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; };
    api.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t,
                                            cublasLtMatmulDescAttributes_t name, const void* value,
                                            size_t size) {
      std::memcpy(&fake->attributes_[name], value, size);
      return CUBLAS_STATUS_SUCCESS;
    };
    api.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t* made, cudaDataType, uint64_t,
                                        uint64_t, int64_t) { return Make(made); };
    api.cublasLtMatrixLayoutDestroy = [](cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; };
    api.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayoutAttribute_t, const void*,
                                              size_t) { return CUBLAS_STATUS_SUCCESS; };
    api.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t* made) {
      return Make(made);
    };
    api.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t) {
      return CUBLAS_STATUS_SUCCESS;
    };
    api.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t,
                                                  cublasLtMatmulPreferenceAttributes_t name,
                                                  const void* value, size_t size) {
      std::memcpy(&fake->preferences_[name], value, size);
      return CUBLAS_STATUS_SUCCESS;
    };
    api.cublasLtMatmulAlgoGetHeuristic =
        [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t,
           int max_results, cublasLtMatmulHeuristicResult_t* results,
           int* found) { return fake->FindAlgorithms(max_results, results, found); };
    api.cublasLtMatmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                            cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                            const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                            cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm, void*,
                            size_t, cudaStream_t) {
      return fake->Multiply(*algorithm, *static_cast<const float*>(beta), d);
    };
    return api;
  }

  static FakeCublas* fake;
  const std::vector<FakeAlgorithm> algorithms_;
  Device* device_ = nullptr;
  std::map<int, int64_t> attributes_, preferences_;
  cublasStatus_t sums_status_ = CUBLAS_STATUS_SUCCESS;
  std::vector<Call> runs_;
};
FakeCublas* FakeCublas::fake = nullptr;

class CublasMatmulTest : public ::testing::Test {
 protected:
  // Returns the product c += a b.
  Product AddedTo(const std::shared_ptr<Device>& device) {
    a_ = Tensor::Zeros(device, {8, 8}, DType::kF32);
    c_ = Tensor::Zeros(device, {8, 8}, DType::kF32);
    Product product = {8, 8, 8};
    product.a = product.b = RowsOf(a_);
    product.c = product.d = RowsOf(c_);
    return product;
  }
  static std::vector<int> NumbersOf(const std::vector<Call>& runs) {
    std::vector<int> numbers;
    for (const Call& run : runs) numbers.push_back(run.algorithm);
    return numbers;
  }

  dpipe::cuda::FakeDriver driver_;
  const std::shared_ptr<Device> device_ = (*dpipe::cuda::CreateCudaDevices(&driver_, 1))[0];
  const ScratchFolder folder_;
  const std::string path_ = folder_.File("engines.json");
  Tensor a_, c_;
};

TEST_F(CublasMatmulTest, RunsFirstSupportedAlgorithm) {
  FakeCublas cublas({{1, true}, {1, true}, {1, false}});
  const Product product = AddedTo(device_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cublas.Multiply(device_, product).ok());
    const std::vector<Call> runs = cublas.TakeRuns();
    EXPECT_EQ(NumbersOf(runs), std::vector<int>{2});
    EXPECT_EQ(runs[0].d, c_.raw_data());
    EXPECT_EQ(runs[0].beta, 1);
  }
}

TEST_F(CublasMatmulTest, UnimplementedIfAllAreRejected) {
  FakeCublas cublas({{1, true}, {1, true}});
  const Product product = AddedTo(device_);
  for (int i = 0; i < 2; ++i) {
    const absl::Status done = cublas.Multiply(device_, product);
    EXPECT_TRUE(absl::IsUnimplemented(done)) << done;
  }
  FakeCublas none(std::vector<FakeAlgorithm>{});
  const auto other = device_->MakeSibling();
  EXPECT_TRUE(absl::IsUnimplemented(none.Multiply(other, AddedTo(other))));
}

TEST_F(CublasMatmulTest, KernelAddsUnsupportedBias) {
  const FakeAlgorithm without_bias = {/*work=*/0, false, /*rejects_bias=*/true};
  FakeCublas cublas({without_bias});
  Product product = AddedTo(device_);
  Tensor bias = Tensor::Zeros(device_, {8}, DType::kF32);
  const Tensor numbers = RandomTensor(Device::Cpu(), {8}, DType::kF32, /*seed=*/1);
  bias.CopyFrom(numbers);
  product.bias = bias.data<float>();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cublas.Multiply(device_, product).ok());
    EXPECT_EQ(cublas.TakeRuns().size(), 1);
  }
  // The fake library only records calls, so the result is the bias added to zeros.
  const std::vector<double> sums = Values(OnDevice(Device::Cpu(), c_)), added = Values(numbers);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[i], 2 * added[i % 8]);
}

TEST_F(CublasMatmulTest, UnknownSumsAreUnimplemented) {
  FakeCublas cublas({FakeAlgorithm()});
  cublas.set_sums_status(CUBLAS_STATUS_INVALID_VALUE);
  Product product = AddedTo(device_);
  ASSERT_TRUE(cublas.Multiply(device_, product).ok());
  Tensor sums = Tensor::Zeros(device_, {8}, DType::kF32);
  product.a_sums = sums.data<float>();
  const absl::Status done = cublas.Multiply(device_, product);
  EXPECT_TRUE(absl::IsUnimplemented(done)) << done;
}

TEST_F(CublasMatmulTest, AlignmentHoldsForEveryMatrixOfABatch) {
  FakeCublas cublas({FakeAlgorithm()});
  // Four heads of 6 fp32 numbers: rows of 96 bytes, with heads that begin 24 bytes apart.
  const Tensor x = Tensor::Zeros(device_, {8, 24}, DType::kF32);
  c_ = Tensor::Zeros(device_, {4, 8, 8}, DType::kF32);
  Product product = {8, 8, 6};
  product.batch = 4;
  product.a = {x.raw_data(), DType::kF32, 24, 6};
  product.b = {x.raw_data(), DType::kF32, 24, 6, /*transposed=*/true};
  product.d = {c_.raw_data(), DType::kF32, 8, 64};
  ASSERT_TRUE(cublas.Multiply(device_, product).ok());
  EXPECT_EQ(cublas.preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 8);
  EXPECT_EQ(cublas.preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 8);
  EXPECT_EQ(cublas.preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 16);
}

TEST_F(CublasMatmulTest, ShareOfAGpuPassesItsSize) {
  FakeCublas whole({FakeAlgorithm()});
  ASSERT_TRUE(whole.Multiply(device_, AddedTo(device_)).ok());
  EXPECT_EQ(whole.attribute(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 0);
  const auto share = (*dpipe::cuda::CreateVirtualCudaDevices(&driver_, 4))[0];
  FakeCublas divided({FakeAlgorithm()});
  ASSERT_TRUE(divided.Multiply(share, AddedTo(share)).ok());
  EXPECT_EQ(divided.attribute(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET), 32);
}

TEST_F(CublasMatmulTest, TimingDoesNotTouchTheResult) {
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path_, /*time_engines=*/true).ok());
  FakeCublas cublas({{20}, {1, true}, {4}, {10}});
  const Product product = AddedTo(device_);
  ASSERT_TRUE(cublas.Multiply(device_, product).ok());
  std::vector<Call> runs = cublas.TakeRuns();
  ASSERT_GT(runs.size(), 10);
  std::set<int> timed;
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    timed.insert(runs[i].algorithm);
    EXPECT_NE(runs[i].d, c_.raw_data());
    EXPECT_EQ(runs[i].beta, 1);
  }
  EXPECT_EQ(timed, (std::set<int>{0, 2, 3}));
  EXPECT_EQ(runs.back().algorithm, 2);
  EXPECT_EQ(runs.back().d, c_.raw_data());
  ASSERT_TRUE(cublas.Multiply(device_, product).ok());
  EXPECT_EQ(NumbersOf(cublas.TakeRuns()), std::vector<int>{2});

  // Another device, as in another process with the same file.
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path_, /*time_engines=*/false).ok());
  const auto other = device_->MakeSibling();
  FakeCublas later({{20}, {1, true}, {4}, {10}});
  ASSERT_TRUE(later.Multiply(other, AddedTo(other)).ok());
  EXPECT_EQ(NumbersOf(later.TakeRuns()), std::vector<int>{2});
  EXPECT_TRUE(driver_.violations().empty()) << driver_.violations()[0];
}

TEST_F(CublasMatmulTest, MissingChoiceFallsBackToTheFirst) {
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path_, /*time_engines=*/true).ok());
  FakeCublas many({{20}, {4}, {1}});
  ASSERT_TRUE(many.Multiply(device_, AddedTo(device_)).ok());
  EXPECT_EQ(many.TakeRuns().back().algorithm, 2);
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path_, /*time_engines=*/false).ok());
  const auto other = device_->MakeSibling();
  FakeCublas few({{20}, {4}});
  ASSERT_TRUE(few.Multiply(other, AddedTo(other)).ok());
  EXPECT_EQ(NumbersOf(few.TakeRuns()), std::vector<int>{0});
}

}  // namespace
}  // namespace dpipe::ops::cuda

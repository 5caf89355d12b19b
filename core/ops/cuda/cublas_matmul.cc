#include "core/ops/cuda/cublas_matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/cuda/cublas_lt_api.h"
#include "core/ops/cuda/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe::ops::cuda {
namespace {

// What NVIDIA recommends for Hopper, and more than Ampere's algorithms ask for.
constexpr uint64_t kMostWorkspaceBytes = 32 << 20;

#define DPIPE_LT(api, call, ...) \
  DPIPE_RETURN_IF_ERROR(CublasLtStatus((api), (api).call(__VA_ARGS__), #call))

template <typename T>
using Owned = std::shared_ptr<T>;
using Description = Owned<cublasLtMatmulDescOpaque_t>;
using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
using Preference = Owned<cublasLtMatmulPreferenceOpaque_t>;

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// Alignment matters to the choice up to 16 bytes.
uint32_t AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return static_cast<uint32_t>(address % 16 == 0 ? 16 : address & ~(address - 1));
}

// All that the choice of an algorithm depends on.
using Key = std::array<int64_t, 23>;
Key KeyOf(const Product& p) {
  const int64_t bias = p.bias != nullptr ? AlignmentOf(p.bias) : 0;
  Key key = {p.m, p.n, p.k, p.batch, bias, p.a_sums != nullptr, p.c.data == p.d.data};
  size_t i = 7;
  for (const Matrix* matrix : {&p.a, &p.b, &p.c, &p.d}) {
    key[i++] = matrix->row_stride;
    key[i++] = matrix->batch_stride;
    key[i++] = static_cast<int64_t>(matrix->dtype) * 2 + (matrix->transposed ? 1 : 0);
    key[i++] = matrix->data == nullptr ? 0 : AlignmentOf(matrix->data);
  }
  return key;
}

// The library reads a c in any case; d stands for one that is multiplied by 0.
const Matrix& AddendOf(const Product& p) { return p.c.data != nullptr ? p.c : p.d; }

// A product as the library runs it. Its matrices have columns first, in which our row-major a, b, c
// and d are their transposes: it computes d^T = b^T a^T + c^T.
struct Plan {
  Description description;
  Layout a, b, c, d;
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;
};

// The plans of a device.
class MatmulPlans {
 public:
  static absl::StatusOr<std::unique_ptr<MatmulPlans>> Create() {
    DPIPE_ASSIGN_OR_RETURN(const CublasLtApi* api, LoadCublasLt());
    cublasLtHandle_t handle = nullptr;
    DPIPE_LT(*api, cublasLtCreate, &handle);
    return std::unique_ptr<MatmulPlans>(new MatmulPlans(*api, handle));
  }
  ~MatmulPlans() { api_.cublasLtDestroy(handle_); }

  absl::Status Run(const std::shared_ptr<Device>& device, const Product& product,
                   cudaStream_t stream) {
    const Key key = KeyOf(product);
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, Choose(product)).first;
    DPIPE_RETURN_IF_ERROR(found->second.status());
    const absl::Status done = Execute(*found->second, device, product, stream);
    // An algorithm may be refused only when it is to run: then nobody asks for it again.
    if (absl::IsUnimplemented(done)) found->second = done;
    return done;
  }

 private:
  MatmulPlans(const CublasLtApi& api, cublasLtHandle_t handle) : api_(api), handle_(handle) {}

  absl::StatusOr<Plan> Choose(const Product& p) {
    Plan plan;
    DPIPE_ASSIGN_OR_RETURN(plan.a, LayoutOf(p.a, p.m, p.k, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.b, LayoutOf(p.b, p.k, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.c, LayoutOf(AddendOf(p), p.m, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.d, LayoutOf(p.d, p.m, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.description, DescriptionOf(p));
    DPIPE_ASSIGN_OR_RETURN(const Preference preference, PreferenceOf(p));
    // Best first; each says whether it can be used.
    std::array<cublasLtMatmulHeuristicResult_t, 4> results = {};
    int found = 0;
    cublasStatus_t status = api_.cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.d.get(),
        preference.get(), static_cast<int>(results.size()), results.data(), &found);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      plan.algorithm = results[i].algo;
      plan.workspace_bytes = results[i].workspaceSize;
      return plan;
    }
    if (status == CUBLAS_STATUS_SUCCESS) status = CUBLAS_STATUS_NOT_SUPPORTED;
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a product of ", p.m,
                                                 " x ", p.k, " and ", p.k, " x ", p.n, " in ",
                                                 DTypeName(p.a.dtype), " to ", DTypeName(p.d.dtype),
                                                 ": ", api_.cublasLtGetStatusString(status)));
  }

  // Of a matrix [rows, columns] as we see it, stored rows first: columns first, [columns, rows].
  absl::StatusOr<Layout> LayoutOf(const Matrix& matrix, int64_t rows, int64_t columns,
                                  int64_t batch) {
    if (matrix.transposed) std::swap(rows, columns);
    cublasLtMatrixLayout_t raw = nullptr;
    DPIPE_LT(api_, cublasLtMatrixLayoutCreate, &raw, TypeOf(matrix.dtype), columns, rows,
             matrix.row_stride);
    Layout layout(raw, api_.cublasLtMatrixLayoutDestroy);
    const auto count = static_cast<int32_t>(batch);
    DPIPE_LT(api_, cublasLtMatrixLayoutSetAttribute, raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
             &count, sizeof(count));
    DPIPE_LT(api_, cublasLtMatrixLayoutSetAttribute, raw,
             CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
             sizeof(matrix.batch_stride));
    return layout;
  }

  absl::StatusOr<Description> DescriptionOf(const Product& p) {
    cublasLtMatmulDesc_t raw = nullptr;
    // Not TF32: fp32 is what others are compared with.
    DPIPE_LT(api_, cublasLtMatmulDescCreate, &raw, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    Description description(raw, api_.cublasLtMatmulDescDestroy);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      return CublasLtStatus(
          api_, api_.cublasLtMatmulDescSetAttribute(raw, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
    };
    const auto operation = [](const Matrix& matrix) {
      return static_cast<int32_t>(matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.b)));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.a)));
    if (p.bias == nullptr && p.a_sums == nullptr) return description;
    // Our a is the library's b. Biases, and their gradients, have the result's type. The choice of
    // an algorithm depends on where they lie, too: a narrowed bias will be aligned.
    const auto epilogue = p.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB;
    const void* where = p.bias != nullptr ? p.bias : p.a_sums;
    if (IsNarrowed(p)) where = reinterpret_cast<const void*>(uintptr_t{256});
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue)));
    DPIPE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(TypeOf(p.d.dtype))));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, where));
    return description;
  }

  // Whether the bias is rounded to bf16 before it is added.
  static bool IsNarrowed(const Product& p) {
    return p.bias != nullptr && p.d.dtype == DType::kBf16;
  }

  absl::StatusOr<Preference> PreferenceOf(const Product& p) {
    cublasLtMatmulPreference_t raw = nullptr;
    DPIPE_LT(api_, cublasLtMatmulPreferenceCreate, &raw);
    Preference preference(raw, api_.cublasLtMatmulPreferenceDestroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      return CublasLtStatus(
          api_, api_.cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
    };
    DPIPE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMostWorkspaceBytes}));
    // Partial sums of a divided k are added in fp32 and in order, from the workspace; not in place,
    // in the order in which they come.
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                              static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(p.b.data)));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(p.a.data)));
    DPIPE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(AddendOf(p).data)));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(p.d.data)));
    return preference;
  }

  absl::Status Execute(const Plan& plan, const std::shared_ptr<Device>& device, const Product& p,
                       cudaStream_t stream) {
    const Tensor workspace =
        Tensor::Empty(device, {static_cast<int64_t>(plan.workspace_bytes + 3) / 4}, DType::kF32);
    Tensor narrow_bias;
    const void* where = p.bias != nullptr ? p.bias : p.a_sums;
    if (IsNarrowed(p)) {
      narrow_bias = Tensor::Empty(device, {p.n}, DType::kBf16);
      MapConvert(StreamOf(*device), p.n, p.bias, narrow_bias.data<Bf16>());
      where = narrow_bias.raw_data();
    }
    if (where != nullptr) {
      DPIPE_LT(api_, cublasLtMatmulDescSetAttribute, plan.description.get(),
               CUBLASLT_MATMUL_DESC_BIAS_POINTER, &where, sizeof(where));
    }
    const float alpha = 1, beta = p.c.data != nullptr ? 1.0f : 0.0f;
    DPIPE_LT(api_, cublasLtMatmul, handle_, plan.description.get(), &alpha, p.b.data, plan.b.get(),
             p.a.data, plan.a.get(), &beta, AddendOf(p).data, plan.c.get(), p.d.data, plan.d.get(),
             &plan.algorithm, workspace.raw_data(), plan.workspace_bytes, stream);
    return absl::OkStatus();
  }

  const CublasLtApi& api_;
  const cublasLtHandle_t handle_;
  std::map<Key, absl::StatusOr<Plan>> plans_;
};

}  // namespace

absl::Status MultiplyByCublas(const std::shared_ptr<Device>& device, const Product& product) {
  dpipe::cuda::CudaDevice& gpu = dpipe::cuda::CudaDeviceOf(*device);
  DPIPE_ASSIGN_OR_RETURN(MatmulPlans * plans, gpu.Attached<MatmulPlans>(&MatmulPlans::Create));
  return plans->Run(device, product, static_cast<cudaStream_t>(gpu.stream()));
}

}  // namespace dpipe::ops::cuda

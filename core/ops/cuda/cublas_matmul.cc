#include "core/ops/cuda/cublas_matmul.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/phases.h"
#include "core/cuda/cublas_lt_api.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/stream_of.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/device_work.h"

namespace dpipe::ops::cuda {
namespace {

// NVIDIA's recommendation for Hopper; more than the algorithms for Ampere request.
constexpr uint64_t kMaxWorkspaceBytes = 32 << 20;

#define DPIPE_LT(api, call, ...) \
  DPIPE_RETURN_IF_ERROR(CublasLtStatus((api), (api).call(__VA_ARGS__), #call))

template <typename T>
using Owned = std::shared_ptr<T>;
using Description = Owned<cublasLtMatmulDescOpaque_t>;
using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
using Preference = Owned<cublasLtMatmulPreferenceOpaque_t>;

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// Returns the alignment of all addresses that are sums of these offsets, up to 16 bytes. Larger
// alignments do not affect the choice.
uint32_t AlignmentOf(uintptr_t offsets) {
  return static_cast<uint32_t>(offsets % 16 == 0 ? 16 : offsets & ~(offsets - 1));
}
uint32_t AlignmentOf(const void* data) { return AlignmentOf(reinterpret_cast<uintptr_t>(data)); }
// Returns the alignment of all rows of all `batch` matrices: heads of attention begin within a row.
uint32_t AlignmentOf(const Matrix& matrix, int64_t batch) {
  const int64_t size = SizeOf(matrix.dtype);
  auto offsets =
      reinterpret_cast<uintptr_t>(matrix.data) | static_cast<uintptr_t>(matrix.row_stride * size);
  if (batch > 1) offsets |= static_cast<uintptr_t>(matrix.batch_stride * size);
  return AlignmentOf(offsets);
}

// Everything that the choice of an algorithm depends on.
using Key = std::array<int64_t, 23>;
Key KeyOf(const Product& p) {
  const int64_t bias = p.bias != nullptr ? AlignmentOf(p.bias) : 0;
  Key key = {p.m, p.n, p.k, p.batch, bias, p.a_sums != nullptr, p.c.data == p.d.data};
  size_t i = 7;
  for (const Matrix* matrix : {&p.a, &p.b, &p.c, &p.d}) {
    key[i++] = matrix->row_stride;
    key[i++] = matrix->batch_stride;
    key[i++] = static_cast<int64_t>(matrix->dtype) * 2 + (matrix->transposed ? 1 : 0);
    key[i++] = matrix->data == nullptr ? 0 : AlignmentOf(*matrix, p.batch);
  }
  return key;
}

// The library always reads c; if there is none, d is passed and multiplied by 0.
const Matrix& AddendOf(const Product& p) { return p.c.data != nullptr ? p.c : p.d; }

struct Algorithm {
  cublasLtMatmulAlgo_t settings = {};
  size_t workspace_bytes = 0;
};

// Returns the algorithm's bytes in hexadecimal. The same version of the library can use them again.
std::string NameOf(const Algorithm& algorithm) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(&algorithm.settings), sizeof(algorithm.settings)));
}

// A product as the library runs it. Its matrices are column-major, so they are the transposes of
// our row-major a, b, c and d: it computes d^T = b^T a^T + c^T.
struct Plan {
  Description description;
  Layout a, b, c, d;
  std::deque<Algorithm> algorithms;  // best first
};

// Describes everything that a product's time depends on, for people and for EngineChoices.
std::string DescribeProduct(const Product& p, const Key& key) {
  return absl::StrCat(
      "a product of ", p.m, " x ", p.k, " and ", p.k, " x ", p.n, " in ", DTypeName(p.a.dtype),
      " to ", DTypeName(p.d.dtype), p.batch == 1 ? "" : absl::StrCat(", ", p.batch, " times"),
      p.bias != nullptr ? ", with a bias" : "", p.c.data != nullptr ? ", added to" : "",
      p.a_sums != nullptr ? ", with sums" : "", "; ", absl::StrJoin(key, " "));
}

// Describes a product briefly, for a profile of the GPU's time.
std::string SizesOf(const Product& p) {
  return absl::StrCat(p.m, " x ", p.n, " x ", p.k, p.batch == 1 ? "" : absl::StrCat(" x ", p.batch),
                      p.a.transposed ? " T" : " N", p.b.transposed ? "T " : "N ",
                      DTypeName(p.d.dtype), p.bias != nullptr ? " +bias" : "",
                      p.c.data != nullptr ? " +c" : "", p.a_sums != nullptr ? " sums" : "");
}
void CountProduct(const Product& p) {
  const auto batch = static_cast<double>(p.batch), m = static_cast<double>(p.m),
             n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const auto in = static_cast<double>(SizeOf(p.a.dtype)),
             out = static_cast<double>(SizeOf(p.d.dtype)) * (p.c.data != nullptr ? 2 : 1);
  CountWork(2 * batch * m * n * k, batch * (in * k * (m + n) + out * m * n));
}

// A zero matrix like `matrix` [rows, columns] in its own memory.
struct Scratch {
  Scratch(const std::shared_ptr<Device>& device, const Matrix& matrix, int64_t rows,
          int64_t columns, int64_t batch)
      : memory(Tensor::Zeros(
            device, {(batch - 1) * matrix.batch_stride + (rows - 1) * matrix.row_stride + columns},
            matrix.dtype)),
        matrix(matrix) {
    this->matrix.data = memory.raw_data();
  }
  Tensor memory;
  Matrix matrix;
};

// The plans of one device.
class MatmulPlans {
 public:
  static absl::StatusOr<std::unique_ptr<MatmulPlans>> Create(
      const CublasLtApi& api, const dpipe::cuda::CudaDevice& device) {
    cublasLtHandle_t handle = nullptr;
    DPIPE_LT(api, cublasLtCreate, &handle);
    return std::unique_ptr<MatmulPlans>(new MatmulPlans(api, handle, device));
  }
  ~MatmulPlans() { api_.cublasLtDestroy(handle_); }

  absl::Status Run(const std::shared_ptr<Device>& device, const Product& product,
                   cudaStream_t stream) {
    const absl::Status done = RunAsOne(device, product, stream);
    const bool is_whole = product.batch == 1 && product.d.row_stride == product.n;
    if (!absl::IsUnimplemented(done) || product.bias == nullptr || !is_whole) return done;
    // cuBLASLt supports a bias for fewer shapes than products; a kernel can add it instead.
    Product without_bias = product;
    without_bias.bias = nullptr;
    DPIPE_RETURN_IF_ERROR(RunAsOne(device, without_bias, stream));
    AddBias(*device, product);
    return absl::OkStatus();
  }

 private:
  static void AddBias(const Device& device, const Product& p) {
    const ChannelsLast shape = {1, p.m, p.n};
    if (p.d.dtype == DType::kF32) {
      AddTerms<float>(StreamOf(device), shape, p.bias, nullptr, nullptr,
                      static_cast<float*>(p.d.data));
    } else {
      AddTerms<Bf16>(StreamOf(device), shape, p.bias, nullptr, nullptr,
                     static_cast<Bf16*>(p.d.data));
    }
  }

  absl::Status RunAsOne(const std::shared_ptr<Device>& device, const Product& product,
                        cudaStream_t stream) {
    const Key key = KeyOf(product);
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      absl::StatusOr<Plan> plan = PlanFor(product);
      if (plan.ok()) {
        DPIPE_RETURN_IF_ERROR(PutChosenFirst(device, product, key, stream, &*plan));
      }
      // Other failures, such as a lack of memory, may not happen again, so they are not stored.
      if (!plan.ok() && !absl::IsUnimplemented(plan.status())) return plan.status();
      found = plans_.emplace(key, std::move(plan)).first;
    }
    DPIPE_RETURN_IF_ERROR(found->second.status());
    // The library may reject an algorithm only when it runs. It is then not tried again.
    std::deque<Algorithm>& algorithms = found->second->algorithms;
    for (;;) {
      const absl::Status done =
          Execute(*found->second, algorithms.front(), device, product, stream);
      if (!absl::IsUnimplemented(done)) return done;
      if (algorithms.size() == 1) {
        found->second = done;
        return done;
      }
      algorithms.pop_front();
    }
  }

  MatmulPlans(const CublasLtApi& api, cublasLtHandle_t handle,
              const dpipe::cuda::CudaDevice& device)
      : api_(api),
        handle_(handle),
        share_(device.context().green == nullptr ? 0 : device.context().multiprocessors),
        device_text_(absl::StrCat(device.gpu().name, ", ", device.context().multiprocessors,
                                  " multiprocessors")),
        library_text_(absl::StrCat("cuBLASLt ", api.cublasLtGetVersion())) {}

  absl::StatusOr<Plan> PlanFor(const Product& p) {
    const Phase phase("cuBLASLt's heuristics");
    Plan plan;
    DPIPE_ASSIGN_OR_RETURN(plan.a, LayoutOf(p.a, p.m, p.k, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.b, LayoutOf(p.b, p.k, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.c, LayoutOf(AddendOf(p), p.m, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.d, LayoutOf(p.d, p.m, p.n, p.batch));
    DPIPE_ASSIGN_OR_RETURN(plan.description, DescriptionOf(p));
    DPIPE_ASSIGN_OR_RETURN(const Preference preference, PreferenceOf(p));
    // Best first; each has a status that tells if it can be used.
    std::array<cublasLtMatmulHeuristicResult_t, 8> results = {};
    int found = 0;
    cublasStatus_t status = api_.cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.d.get(),
        preference.get(), static_cast<int>(results.size()), results.data(), &found);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      plan.algorithms.push_back({results[i].algo, results[i].workspaceSize});
    }
    if (!plan.algorithms.empty()) return plan;
    if (status == CUBLAS_STATUS_SUCCESS) status = CUBLAS_STATUS_NOT_SUPPORTED;
    // The status is not documented for shapes without sums or biases.
    const bool has_epilogue = p.bias != nullptr || p.a_sums != nullptr;
    if (has_epilogue && status == CUBLAS_STATUS_INVALID_VALUE) status = CUBLAS_STATUS_NOT_SUPPORTED;
    return CublasLtStatus(api_, status,
                          absl::StrCat("cuBLASLt's algorithms for ", DescribeProduct(p, KeyOf(p))));
  }

  // Moves the algorithm that EngineChoices names to the front, if the plan has it. Timed runs write
  // to scratch memory instead of the product's result, because the result may also be the addend.
  absl::Status PutChosenFirst(const std::shared_ptr<Device>& device, const Product& product,
                              const Key& key, cudaStream_t stream, Plan* plan) {
    EngineChoices& choices = EngineChoices::OfProcess();
    if (!choices.in_use()) return absl::OkStatus();
    std::vector<Scratch> scratch;
    Product timed = product;
    Tensor sums;
    const auto engines = [&] {
      scratch.emplace_back(device, product.d, product.m, product.n, product.batch);
      timed.d = scratch.back().matrix;
      if (product.c.data == product.d.data) timed.c = timed.d;
      if (product.a_sums != nullptr) {
        sums = Tensor::Zeros(device, {product.m}, DType::kF32);
        timed.a_sums = sums.data<float>();
      }
      std::vector<Engine> all;
      for (const Algorithm& algorithm : plan->algorithms) {
        all.push_back({NameOf(algorithm),
                       [&, this] { return Execute(*plan, algorithm, device, timed, stream); }});
      }
      return all;
    };
    DPIPE_ASSIGN_OR_RETURN(const std::string name, choices.Choose({DescribeProduct(product, key),
                                                                   device_text_, library_text_},
                                                                  *device, engines));
    auto& algorithms = plan->algorithms;
    const auto chosen = std::find_if(algorithms.begin(), algorithms.end(),
                                     [&](const Algorithm& one) { return NameOf(one) == name; });
    if (chosen != algorithms.end()) std::rotate(algorithms.begin(), chosen, chosen + 1);
    return absl::OkStatus();
  }

  // Returns the layout of our row-major matrix [rows, columns]: the library's column-major matrix
  // [columns, rows].
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
    // Not TF32: fp32 results are the reference for comparisons.
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
    // On a share of a GPU, the library must be given the number of multiprocessors.
    if (share_ > 0) DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, share_));
    if (p.bias == nullptr && p.a_sums == nullptr) return description;
    // Our a is the library's b. Biases and their gradients have the result's type. The choice of an
    // algorithm also depends on their alignment: a narrowed bias will be aligned.
    const auto epilogue = p.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB;
    const void* where = p.bias != nullptr ? p.bias : p.a_sums;
    if (IsNarrowed(p)) where = reinterpret_cast<const void*>(uintptr_t{256});
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue)));
    DPIPE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(TypeOf(p.d.dtype))));
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, where));
    return description;
  }

  // True if the bias is rounded to bf16 before it is added.
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
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMaxWorkspaceBytes}));
    // If k is divided, partial sums are kept in fp32 and added in order, in a separate step.
    // In-place additions, whose order varies, are allowed only if any order is.
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (p.d.dtype == DType::kF32) {
      reductions |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
      if (!EngineChoices::OfProcess().deterministic()) {
        reductions |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
      }
    }
    DPIPE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
    const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, const Matrix& matrix) {
      return set(attribute, AlignmentOf(matrix, p.batch));
    };
    DPIPE_RETURN_IF_ERROR(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b));
    DPIPE_RETURN_IF_ERROR(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a));
    DPIPE_RETURN_IF_ERROR(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AddendOf(p)));
    DPIPE_RETURN_IF_ERROR(align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.d));
    return preference;
  }

  absl::Status Execute(const Plan& plan, const Algorithm& algorithm,
                       const std::shared_ptr<Device>& device, const Product& p,
                       cudaStream_t stream) {
    const WorkScope scope([&] { return SizesOf(p); });
    CountProduct(p);
    const Tensor workspace = Tensor::Empty(
        device, {static_cast<int64_t>(algorithm.workspace_bytes + 3) / 4}, DType::kF32);
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
             &algorithm.settings, workspace.raw_data(), algorithm.workspace_bytes, stream);
    return absl::OkStatus();
  }

  const CublasLtApi& api_;
  const cublasLtHandle_t handle_;
  const int32_t share_;  // number of the GPU's multiprocessors; 0: all
  const std::string device_text_, library_text_;
  std::map<Key, absl::StatusOr<Plan>> plans_;
};

}  // namespace

namespace internal {

absl::Status MultiplyByCublas(const CublasLtApi& api, const std::shared_ptr<Device>& device,
                              const Product& product) {
  dpipe::cuda::CudaDevice& gpu = dpipe::cuda::CudaDeviceOf(*device);
  DPIPE_ASSIGN_OR_RETURN(MatmulPlans * plans,
                         gpu.Attached<MatmulPlans>([&] { return MatmulPlans::Create(api, gpu); }));
  return plans->Run(device, product, static_cast<cudaStream_t>(gpu.stream()));
}

}  // namespace internal

absl::Status MultiplyByCublas(const std::shared_ptr<Device>& device, const Product& product) {
  DPIPE_ASSIGN_OR_RETURN(const CublasLtApi* api, LoadCublasLt());
  return internal::MultiplyByCublas(*api, device, product);
}

}  // namespace dpipe::ops::cuda

#include "core/ops/cuda/cudnn_graph.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe::ops::cuda {
namespace {

constexpr int64_t kMostConfigs = 32;

// describing: the call describes a graph, or a plan for it. What a version does not know there, it
// refuses as bad parameters, too.
absl::Status CudnnStatus(const CudnnApi& api, cudnnStatus_t status, absl::string_view call,
                         bool describing = false) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", api.cudnnGetErrorString(status));
  // BAD_PARAM and its reasons have numbers from 2000 on, NOT_SUPPORTED and its reasons from 3000.
  const int first = describing ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_NOT_SUPPORTED;
  return status >= first && status < CUDNN_STATUS_INTERNAL_ERROR ? absl::UnimplementedError(message)
                                                                 : absl::InternalError(message);
}

// 91501 as "9.15.1".
std::string VersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type)
    : api_(&api), is_of_run_(type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
  cudnnBackendDescriptor_t raw = nullptr;
  Keep(api.cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor", type);
  if (raw == nullptr) return;
  descriptor_ = std::shared_ptr<void>(
      raw, [&api](void* descriptor) { api.cudnnBackendDestroyDescriptor(descriptor); });
}

void CudnnDescriptor::Keep(cudnnStatus_t status, const char* call, int attribute) {
  if (!status_.ok()) return;
  status_ = CudnnStatus(*api_, status, absl::StrCat(call, " of ", attribute), !is_of_run_);
}

CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type, const void* values,
                                      int64_t count) {
  if (status_.ok()) {
    Keep(api_->cudnnBackendSetAttribute(get(), name, type, count, values),
         "cudnnBackendSetAttribute", name);
  }
  return *this;
}

CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name, int64_t value) {
  return Set(name, CUDNN_TYPE_INT64, &value);
}
CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                                      const std::vector<int64_t>& values) {
  return Set(name, CUDNN_TYPE_INT64, values.data(), static_cast<int64_t>(values.size()));
}
CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name, bool value) {
  return Set(name, CUDNN_TYPE_BOOLEAN, &value);
}
CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return Set(name, CUDNN_TYPE_DATA_TYPE, &value);
}
CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                                      const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw);
}

absl::Status CudnnDescriptor::Finalize() {
  if (status_.ok()) Keep(api_->cudnnBackendFinalize(get()), "cudnnBackendFinalize", 0);
  return status_;
}

cudnnDataType_t CudnnType(DType dtype) {
  return dtype == DType::kF32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

const CudnnDescriptor& CudnnGraph::AddTensor(const CudnnTensor& tensor) {
  CudnnDescriptor& descriptor = Add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CudnnType(tensor.dtype))
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.sizes)
      .Set(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
  if (tensor.place == CudnnTensor::Place::kBetweenOperations) {
    descriptor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  }
  if (tensor.place == CudnnTensor::Place::kByValue) {
    descriptor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  }
  return Finish(descriptor);
}

CudnnDescriptor& CudnnGraph::Add(cudnnBackendDescriptorType_t type) {
  descriptors_.push_back(std::make_unique<CudnnDescriptor>(api_, type));
  return *descriptors_.back();
}

CudnnDescriptor& CudnnGraph::AddOperation(cudnnBackendDescriptorType_t type) {
  CudnnDescriptor& operation = Add(type);
  operations_.push_back(&operation);
  return operation;
}

const CudnnDescriptor& CudnnGraph::Finish(CudnnDescriptor& descriptor) {
  const absl::Status finalized = descriptor.Finalize();
  if (status_.ok()) status_ = finalized;
  return descriptor;
}

void CudnnGraph::Require(size_t version) {
  const size_t present = api_.cudnnGetVersion();
  if (present >= version || !status_.ok()) return;
  status_ = absl::UnimplementedError(absl::StrCat("it needs cuDNN ", VersionText(version),
                                                  " or newer, and this is ", VersionText(present)));
}

absl::StatusOr<CudnnTarget> CudnnTarget::WithProperties(const CudnnApi& api,
                                                        const std::string& json) {
  auto properties = std::make_shared<CudnnDescriptor>(api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.data(),
                  static_cast<int64_t>(json.size()));
  DPIPE_RETURN_IF_ERROR(properties->Finalize());
  CudnnTarget target(nullptr);
  target.properties_ = std::move(properties);
  return target;
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnPlan::Create(const CudnnTarget& target,
                                                             std::unique_ptr<CudnnGraph> graph,
                                                             bool exact_fp32) {
  DPIPE_RETURN_IF_ERROR(graph->status());
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan(std::move(graph)));
  DPIPE_RETURN_IF_ERROR(plan->Choose(target, exact_fp32));
  return plan;
}

absl::Status CudnnPlan::Choose(const CudnnTarget& target, bool exact_fp32) {
  const CudnnApi& api = graph_->api();
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor* operation : graph_->operations()) {
    operations.push_back(operation->get());
  }
  operation_graph_ =
      std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  operation_graph_->Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        operations.data(), static_cast<int64_t>(operations.size()));
  const cudnnHandle_t handle = target.handle();
  if (handle != nullptr) {
    operation_graph_->Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle);
  }
  DPIPE_RETURN_IF_ERROR(operation_graph_->Finalize());

  absl::Status last = absl::UnimplementedError("cuDNN's heuristics name no engine");
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    CudnnDescriptor heuristics(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operation_graph_)
        .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    if (target.properties() != nullptr) {
      heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties());
    }
    const absl::Status finalized = heuristics.Finalize();
    if (!finalized.ok()) {
      last = finalized;
      continue;
    }
    std::vector<std::unique_ptr<CudnnDescriptor>> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < kMostConfigs; ++i) {
      configs.push_back(std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      raw.push_back(configs.back()->get());
    }
    int64_t found = 0;
    DPIPE_RETURN_IF_ERROR(
        CudnnStatus(api,
                    api.cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostConfigs,
                                                 &found, raw.data()),
                    "the engines that cuDNN's heuristics name"));
    for (int64_t i = 0; i < std::min(found, kMostConfigs); ++i) {
      last = Try(target, std::move(configs[i]), exact_fp32);
      if (last.ok()) return last;
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("cuDNN has no fit engine; of the last one it says: ", last.message()));
}

absl::Status CudnnPlan::Try(const CudnnTarget& target, std::unique_ptr<CudnnDescriptor> config,
                            bool exact_fp32) {
  const CudnnApi& api = graph_->api();
  CudnnDescriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  DPIPE_RETURN_IF_ERROR(
      CudnnStatus(api,
                  api.cudnnBackendGetAttribute(config->get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
                  "an engine configuration's engine"));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  DPIPE_RETURN_IF_ERROR(CudnnStatus(
      api,
      api.cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
      "an engine's numerical notes"));
  for (int64_t i = 0; i < count; ++i) {
    // fp32 on tensor cores is TF32.
    const bool rounds = notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                        notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
        notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || (exact_fp32 && rounds)) {
      return absl::UnimplementedError(
          absl::StrCat("the engine's results do not keep what is promised, note ", notes[i]));
    }
  }
  auto plan = std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
  if (target.properties() != nullptr) {
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties());
  } else {
    const cudnnHandle_t handle = target.handle();
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle);
  }
  DPIPE_RETURN_IF_ERROR(plan->Finalize());
  DPIPE_RETURN_IF_ERROR(CudnnStatus(
      api,
      api.cudnnBackendGetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                   CUDNN_TYPE_INT64, 1, &count, &workspace_bytes_),
      "a plan's workspace"));
  config_ = std::move(config);
  plan_ = std::move(plan);
  return absl::OkStatus();
}

absl::Status CudnnPlan::Run(cudnnHandle_t handle, const std::shared_ptr<Device>& device,
                            const std::vector<std::pair<int64_t, void*>>& memory) const {
  const CudnnApi& api = graph_->api();
  const Tensor workspace = Tensor::Empty(device, {(workspace_bytes_ + 3) / 4}, DType::kF32);
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : memory) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  void* const workspace_data = workspace.raw_data();
  CudnnDescriptor pack(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(),
           static_cast<int64_t>(pointers.size()))
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace_data);
  DPIPE_RETURN_IF_ERROR(pack.Finalize());
  return CudnnStatus(api, api.cudnnBackendExecute(handle, plan_->get(), pack.get()),
                     "cudnnBackendExecute");
}

absl::StatusOr<CudnnContext*> CudnnContext::Of(Device& device) {
  dpipe::cuda::CudaDevice& gpu = dpipe::cuda::CudaDeviceOf(device);
  return gpu.Attached<CudnnContext>([&gpu] { return Create(gpu); });
}

absl::StatusOr<std::unique_ptr<CudnnContext>> CudnnContext::Create(
    const dpipe::cuda::CudaDevice& device) {
  DPIPE_ASSIGN_OR_RETURN(const CudnnApi* api, LoadCudnn());
  cudnnHandle_t handle = nullptr;
  DPIPE_RETURN_IF_ERROR(CudnnStatus(*api, api->cudnnCreate(&handle), "cudnnCreate"));
  std::unique_ptr<CudnnContext> context(new CudnnContext(*api, handle));
  DPIPE_RETURN_IF_ERROR(
      CudnnStatus(*api, api->cudnnSetStream(handle, device.stream()), "cudnnSetStream"));
  return context;
}

CudnnContext::~CudnnContext() {
  plans_.clear();
  api_.cudnnDestroy(handle_);
}

absl::StatusOr<const CudnnPlan*> CudnnContext::PlanFor(const Key& key, bool exact_fp32,
                                                       const Describe& describe) {
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(key, MakePlan(exact_fp32, describe)).first;
  }
  if (!found->second.ok()) return found->second.status();
  return found->second->get();
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnContext::MakePlan(bool exact_fp32,
                                                                  const Describe& describe) {
  auto graph = std::make_unique<CudnnGraph>(api_);
  describe(graph.get());
  return CudnnPlan::Create(CudnnTarget(handle_), std::move(graph), exact_fp32);
}

}  // namespace dpipe::ops::cuda

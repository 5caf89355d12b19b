#include "core/ops/cuda/cudnn/cudnn_graph.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe::ops::cuda {

absl::Status CudnnStatus(const CudnnApi& api, cudnnStatus_t status, absl::string_view call,
                         bool describing) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> reason = {};
  api.cudnnGetLastErrorString(reason.data(), reason.size());
  std::string message = absl::StrCat(call, ": ", api.cudnnGetErrorString(status));
  if (reason[0] != '\0') absl::StrAppend(&message, ": ", reason.data());
  // BAD_PARAM and its reasons are numbered from 2000, NOT_SUPPORTED and its reasons from 3000.
  const int first = describing ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_NOT_SUPPORTED;
  return status >= first && status < CUDNN_STATUS_INTERNAL_ERROR ? absl::UnimplementedError(message)
                                                                 : absl::InternalError(message);
}

std::string CudnnVersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

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
  status_ =
      absl::UnimplementedError(absl::StrCat("it needs cuDNN ", CudnnVersionText(version),
                                            " or newer, but this is ", CudnnVersionText(present)));
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

}  // namespace dpipe::ops::cuda

#include "core/ops/product/weight.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops {

absl::string_view WeightStorageName(WeightStorage storage) {
  switch (storage) {
    case WeightStorage::kFp32:
      return "fp32";
    case WeightStorage::kBf16:
      return "bf16";
    case WeightStorage::kInt8:
      return "int8";
  }
  return "";
}

absl::StatusOr<WeightStorage> ParseWeightStorage(absl::string_view name) {
  for (auto storage : {WeightStorage::kFp32, WeightStorage::kBf16, WeightStorage::kInt8}) {
    if (WeightStorageName(storage) == name) return storage;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown type of weights '", name, "'; expected fp32, bf16 or int8"));
}

int64_t StoredBytes(WeightStorage storage, int64_t count) {
  switch (storage) {
    case WeightStorage::kFp32:
      return count * SizeOf(DType::kF32);
    case WeightStorage::kBf16:
      return count * SizeOf(DType::kBf16);
    case WeightStorage::kInt8:
      return BlockCodes::SizeBytes(count);
  }
  return 0;
}

Weight::Weight(Tensor master)
    : shape_(master.shape()), storage_(WeightStorage::kFp32), stored_(std::move(master)) {
  DPIPE_CHECK(stored_.defined()) << "a weight needs a master";
  DPIPE_CHECK(stored_.dtype() == DType::kF32)
      << "master of a weight is " << DTypeName(stored_.dtype()) << ", not fp32";
}

Weight::Weight(const std::shared_ptr<Device>& device, const Shape& shape, WeightStorage storage)
    : shape_(shape), storage_(storage) {
  if (storage == WeightStorage::kInt8) {
    BlockCodes blocks(device, shape.num_elements());
    stored_ = std::move(blocks.codes);
    scales_ = std::move(blocks.scales);
  } else {
    const bool is_fp32 = storage == WeightStorage::kFp32;
    stored_ = Tensor::Empty(device, shape, is_fp32 ? DType::kF32 : DType::kBf16);
  }
}

void Weight::Assign(const Tensor& values) {
  DPIPE_CHECK_EQ(values.shape(), shape_);
  if (storage_ == WeightStorage::kFp32) {
    stored_.CopyFrom(values);
  } else if (storage_ == WeightStorage::kBf16) {
    stored_.CopyFrom(Narrowed(values));
  } else {
    BlockCodes blocks;
    blocks.codes = stored_;
    blocks.scales = scales_;
    blocks.Encode(values.ToHost());
  }
  MarkUpdated();
}

void Weight::Assign(const Weight& other) {
  DPIPE_CHECK(storage_ == other.storage_ && shape_ == other.shape_)
      << WeightStorageName(storage_) << " " << shape_ << " and "
      << WeightStorageName(other.storage_) << " " << other.shape_;
  stored_.CopyFrom(other.stored_);
  if (scales_.defined()) scales_.CopyFrom(other.scales_);
  MarkUpdated();
}

void Weight::FillZero() {
  stored_.FillZero();
  if (scales_.defined()) scales_.FillZero();
  MarkUpdated();
}

void Weight::MarkUpdated() {
  absl::MutexLock lock(&mutex_);
  if (!keeps_forms_) forms_.clear();
  for (Form& form : forms_) form.stale = true;
}

void Weight::KeepForms() const {
  absl::MutexLock lock(&mutex_);
  if (keeps_forms_) return;
  keeps_forms_ = true;
  forms_.clear();
}

absl::Status Weight::Refresh(Form* form) const {
  if (!form->stale) return absl::OkStatus();
  DPIPE_ASSIGN_OR_RETURN(const Tensor value, form->prepare(stored_));
  form->value.CopyFrom(value);
  form->stale = false;
  return absl::OkStatus();
}

absl::Status Weight::RefreshForms() const {
  absl::MutexLock lock(&mutex_);
  for (Form& form : forms_) DPIPE_RETURN_IF_ERROR(Refresh(&form));
  return absl::OkStatus();
}

Tensor Weight::As(DType dtype) const {
  DPIPE_CHECK(dtype == DType::kF32 || dtype == DType::kBf16) << "a weight as " << DTypeName(dtype);
  if (storage_ == WeightStorage::kInt8) {
    BlockCodes blocks;
    blocks.codes = stored_;
    blocks.scales = scales_;
    Tensor values = Tensor::Empty(stored_.device(), shape_, dtype);
    blocks.DecodeTo(&values);
    return values;
  }
  if (dtype == stored_.dtype()) return stored_;
  if (storage_ == WeightStorage::kBf16) return Widened(stored_);
  return *Prepared(kPlainBf16,
                   [](const Tensor& master) -> absl::StatusOr<Tensor> { return Narrowed(master); });
}

absl::StatusOr<Tensor> Weight::Prepared(int format, const PrepareFn& prepare) const {
  if (storage_ != WeightStorage::kFp32) return prepare(As(DType::kF32));
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const Form& form : forms_) {
      if (form.format == format && !form.stale) return form.value;
    }
  }
  DeviceGraphs* const graphs = stored_.device()->graphs();
  if (graphs != nullptr && graphs->recording()) {
    // Every launch would create it again, or it would be in the recording's memory.
    graphs->Refuse(absl::StrCat("a form of a weight ", shape().ToString(), " is not prepared"));
    return prepare(stored_);
  }
  absl::MutexLock lock(&mutex_);
  for (Form& form : forms_) {
    if (form.format != format) continue;
    DPIPE_RETURN_IF_ERROR(Refresh(&form));
    return form.value;
  }
  DPIPE_ASSIGN_OR_RETURN(Tensor value, prepare(stored_));
  forms_.push_back({format, value, keeps_forms_ ? prepare : nullptr});
  return value;
}

int64_t Weight::prepared_bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  int64_t total = 0;
  for (const Form& form : forms_) total += form.value.size_bytes();
  return total;
}

}  // namespace dpipe::ops

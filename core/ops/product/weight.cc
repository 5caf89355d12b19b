#include "core/ops/product/weight.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops {

Weight::Weight(Tensor master) : master_(std::move(master)) {
  DPIPE_CHECK(master_.defined()) << "a weight needs a master";
  DPIPE_CHECK(master_.dtype() == DType::kF32)
      << "master of a weight is " << DTypeName(master_.dtype()) << ", not fp32";
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
  DPIPE_ASSIGN_OR_RETURN(const Tensor value, form->prepare(master_));
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
  if (dtype == DType::kF32) return master_;
  DPIPE_CHECK(dtype == DType::kBf16) << "a weight as " << DTypeName(dtype);
  return *Prepared(kPlainBf16,
                   [](const Tensor& master) -> absl::StatusOr<Tensor> { return Narrowed(master); });
}

absl::StatusOr<Tensor> Weight::Prepared(int format, const PrepareFn& prepare) const {
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const Form& form : forms_) {
      if (form.format == format && !form.stale) return form.value;
    }
  }
  DeviceGraphs* const graphs = master_.device()->graphs();
  if (graphs != nullptr && graphs->recording()) {
    // Every launch would create it again, or it would be in the recording's memory.
    graphs->Refuse(absl::StrCat("a form of a weight ", shape().ToString(), " is not prepared"));
    return prepare(master_);
  }
  absl::MutexLock lock(&mutex_);
  for (Form& form : forms_) {
    if (form.format != format) continue;
    DPIPE_RETURN_IF_ERROR(Refresh(&form));
    return form.value;
  }
  DPIPE_ASSIGN_OR_RETURN(Tensor value, prepare(master_));
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

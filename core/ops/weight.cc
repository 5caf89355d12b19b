#include "core/ops/weight.h"

#include <utility>

#include "core/base/check.h"
#include "core/ops/convert.h"

namespace dpipe::ops {

Weight::Weight(Tensor master) : master_(std::move(master)) {
  DPIPE_CHECK(master_.defined()) << "a weight needs a master";
  DPIPE_CHECK(master_.dtype() == DType::kF32)
      << "master of a weight is " << DTypeName(master_.dtype()) << ", not fp32";
}

void Weight::MarkUpdated() {
  absl::MutexLock lock(&mutex_);
  forms_.clear();
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
      if (form.format == format) return form.value;
    }
  }
  absl::MutexLock lock(&mutex_);
  for (const Form& form : forms_) {
    if (form.format == format) return form.value;
  }
  DPIPE_ASSIGN_OR_RETURN(Tensor value, prepare(master_));
  forms_.push_back({format, value});
  return value;
}

int64_t Weight::prepared_bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  int64_t total = 0;
  for (const Form& form : forms_) total += form.value.size_bytes();
  return total;
}

}  // namespace dpipe::ops

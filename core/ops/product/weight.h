// A parameter of an op: the fp32 master, and the forms in which backends compute.
#ifndef DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_
#define DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Backends need a parameter rounded to bf16, or in a blocked layout that differs between forward
// and input gradient. Such *prepared forms* are created on first use, cached, and dropped by
// MarkUpdated, so that the micro-batches of a step share one preparation.
//
// KeepForms makes a weight *keep* its forms: they are updated in place, so that recorded work
// (tensor/device_graphs.h) can read them at fixed addresses. Forms must be up to date before
// recording (RefreshForms); creating one while recording is an error.
//
// Several ranks may use one Weight at the same time (frozen components are shared). MarkUpdated and
// writes to the master need exclusive use, as in the optimizer step.
class Weight {
 public:
  // The formats that every backend understands. Backends number their own from kFirstBackendFormat
  // on, without clashes (oneDNN's numbers come from onednn::FormatId).
  static constexpr int kPlainBf16 = 0;
  static constexpr int kFirstBackendFormat = 16;

  // Shares the storage of `master`, fp32 in the layout of checkpoints: [out, in], OIHW.
  explicit Weight(Tensor master);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  const Tensor& master() const { return master_; }
  const Shape& shape() const { return master_.shape(); }

  // Must be called after every change of the master.
  void MarkUpdated();

  // Returns the master itself, or a cached copy rounded to bf16, in the master's layout.
  Tensor As(DType dtype) const;

  // Returns the form numbered `format`, created by `prepare(master)` if it is not cached. If two
  // threads request a missing form at once, the second waits for the first and both get the same
  // one.
  using PrepareFn = std::function<absl::StatusOr<Tensor>(const Tensor& master)>;
  absl::StatusOr<Tensor> Prepared(int format, const PrepareFn& prepare) const;

  // Drops the forms. Forms created from now on stay at their address until the weight is destroyed.
  // After MarkUpdated they are rewritten on their next use, in the order of the device's work.
  // Their `prepare` functions are kept too, so they must not refer to shorter-lived objects. Only
  // the first call has an effect.
  void KeepForms() const;
  // Brings the kept forms up to date.
  absl::Status RefreshForms() const;

  // Bytes currently held by prepared forms.
  int64_t prepared_bytes() const;

 private:
  struct Form {
    int format;
    Tensor value;
    PrepareFn prepare = nullptr;  // of kept forms
    bool stale = false;           // the master has changed since
  };

  absl::Status Refresh(Form* form) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Tensor master_;
  mutable absl::Mutex mutex_;
  mutable bool keeps_forms_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::vector<Form> forms_ ABSL_GUARDED_BY(mutex_);  // few: searched linearly
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_

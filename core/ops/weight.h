// A parameter as ops see it: the fp32 master, and the forms of it that backends compute with.
#ifndef DPIPE_CORE_OPS_WEIGHT_H_
#define DPIPE_CORE_OPS_WEIGHT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Backends want a parameter rounded to bf16, or in a blocked layout that differs between forward
// and input gradient. Such *prepared forms* are made at first use, kept, and dropped by
// MarkUpdated, so that micro-batches of a step share the cost of one preparation.
//
// A weight whose forms are *kept* (KeepForms) makes them anew in place instead, so that recorded
// work (tensor/device_graphs.h) can read them where they lie. They must be up to date before
// (RefreshForms): to make one is refused while work is recorded.
//
// Several ranks may use one Weight at a time (frozen components are shared); MarkUpdated and writes
// to the master need exclusive use, which the optimizer step has.
class Weight {
 public:
  // The formats that every backend understands; backends number theirs from kFirstBackendFormat on
  // (and must not clash: oneDNN's are numbered by onednn::FormatId).
  static constexpr int kPlainBf16 = 0;
  static constexpr int kFirstBackendFormat = 16;

  // Shares the storage of `master`, fp32 in the layout of checkpoints: [out, in], OIHW.
  explicit Weight(Tensor master);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  const Tensor& master() const { return master_; }
  const Shape& shape() const { return master_.shape(); }

  // To be called after every change of the master.
  void MarkUpdated();

  // The master itself, or a cached copy rounded to bf16, in the master's layout.
  Tensor As(DType dtype) const;

  // The form numbered `format`, from `prepare(master)` where it is not cached. Two threads that ask
  // for a missing form at once get the same one: the second waits for the first.
  using PrepareFn = std::function<absl::StatusOr<Tensor>(const Tensor& master)>;
  absl::StatusOr<Tensor> Prepared(int format, const PrepareFn& prepare) const;

  // Drops the forms; those made from now on stay where they are until the weight is gone, and are
  // written again, in the order of the device's work, when they are next wanted after MarkUpdated.
  // `prepare` functions are kept with them, so they must not refer to what goes before. Once.
  void KeepForms() const;
  // Brings the kept forms up to date.
  absl::Status RefreshForms() const;

  // Bytes held by prepared forms now.
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

#endif  // DPIPE_CORE_OPS_WEIGHT_H_

// A parameter of an op: its values as they are kept, and the forms in which backends compute.
#ifndef DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_
#define DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ops/product/block_codes.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// How a weight is kept. Only weights that are not trained may be kept in other types than fp32.
enum class WeightStorage {
  kFp32,
  kBf16,  // rounded to nearest even
  kInt8,  // in blocks of 64: block_codes.h
};

absl::string_view WeightStorageName(WeightStorage storage);  // "fp32", "bf16", "int8"
absl::StatusOr<WeightStorage> ParseWeightStorage(absl::string_view name);
// Returns the bytes of a weight of `count` numbers.
int64_t StoredBytes(WeightStorage storage, int64_t count);

// Backends need a parameter rounded to bf16, or in a blocked layout that differs between forward
// and input gradient. Such *prepared forms* are created on first use, cached, and dropped by
// MarkUpdated, so that the micro-batches of a step share one preparation.
//
// KeepForms makes a weight *keep* its forms: they are updated in place, so that recorded work
// (tensor/device_graphs.h) can read them at fixed addresses. Forms must be up to date before
// recording (RefreshForms); creating one while recording is an error.
//
// A weight that is kept in another type than fp32 has no master. It is decoded for each product,
// and neither its values nor its forms are cached: one layer at a time takes the memory of fp32.
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
  // Allocates an uninitialised weight.
  Weight(const std::shared_ptr<Device>& device, const Shape& shape, WeightStorage storage);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  // The values themselves; for weights that are kept in fp32.
  const Tensor& master() const {
    DPIPE_CHECK(storage_ == WeightStorage::kFp32) << "a weight in " << WeightStorageName(storage_);
    return stored_;
  }
  const Shape& shape() const { return shape_; }
  WeightStorage storage() const { return storage_; }
  int64_t stored_bytes() const { return StoredBytes(storage_, shape_.num_elements()); }
  // The address of what is kept.
  const void* stored_data() const { return stored_.raw_data(); }

  // Sets the values: fp32 of this shape, on any device. Needs exclusive use, as MarkUpdated does,
  // and includes it.
  void Assign(const Tensor& values);
  // The same for the values of a weight of the same shape and storage, on any device.
  void Assign(const Weight& other);
  void FillZero();

  // Must be called after every change of the master.
  void MarkUpdated();

  // Returns the values in fp32 or bf16, in the master's layout: what is kept, if it has that type;
  // a cached copy of a master rounded to bf16; or else new values, decoded from what is kept.
  Tensor As(DType dtype) const;

  // Returns the form numbered `format`, created by `prepare(master)` if it is not cached. If two
  // threads request a missing form at once, the second waits for the first and both get the same
  // one. Without a master, `prepare` gets the decoded values, every time.
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

  const Shape shape_;
  const WeightStorage storage_;
  Tensor stored_;  // fp32 or bf16 with this shape; or the codes
  Tensor scales_;  // of codes
  mutable absl::Mutex mutex_;
  mutable bool keeps_forms_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::vector<Form> forms_ ABSL_GUARDED_BY(mutex_);  // few: searched linearly
};

// A weight with a master, for kernels that read it in place: the given one or, if that has none, a
// temporary one with its decoded values.
class DecodedWeight {
 public:
  explicit DecodedWeight(const Weight& weight) : weight_(&weight) {
    if (weight.storage() == WeightStorage::kFp32) return;
    decoded_.emplace(weight.As(DType::kF32));
    weight_ = &*decoded_;
  }
  const Weight& operator*() const { return *weight_; }

 private:
  std::optional<Weight> decoded_;
  const Weight* weight_;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_PRODUCT_WEIGHT_H_

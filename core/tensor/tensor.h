// A dense, contiguous, row-major array on a device.
#ifndef DPIPE_CORE_TENSOR_TENSOR_H_
#define DPIPE_CORE_TENSOR_TENSOR_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/tensor/device.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace dpipe {

// A cheap value: copies share the storage. By convention only the op that made a tensor writes it,
// before anything else reads it. Gradients and parameters are updated in place and have one owner.
// A default-constructed tensor is empty (`defined()` is false).
class Tensor {
 public:
  Tensor() = default;

  static Tensor Empty(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype);
  static Tensor Zeros(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype);
  // Copies host values, one per element of the shape.
  template <typename T>
  static Tensor FromHost(const std::shared_ptr<Device>& device, const Shape& shape,
                         absl::Span<const T> values) {
    Tensor t = Empty(device, shape, DTypeOf<T>::value);
    DPIPE_CHECK_EQ(static_cast<int64_t>(values.size()), shape.num_elements());
    t.device()->CopyFromHost(t.raw_data(), values.data(), t.size_bytes());
    return t;
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  DType dtype() const { return dtype_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype_); }
  const std::shared_ptr<Device>& device() const;

  // Host code may dereference these pointers only if device()->has_host_memory().
  void* raw_data() const;
  // Returns the elements; T must be the element type.
  template <typename T>
  T* data() const {
    DPIPE_CHECK(DTypeOf<T>::value == dtype_) << "tensor of " << DTypeName(dtype_);
    return static_cast<T*>(raw_data());
  }
  template <typename T>
  absl::Span<T> span() const {
    return absl::Span<T>(data<T>(), num_elements());
  }

  // Returns views that share the storage: Reshape gives another shape with as many elements, Slice
  // the rows [begin, end) of the leading dimension.
  Tensor Reshape(const Shape& shape) const;
  Tensor Slice(int64_t begin, int64_t end) const;
  // Returns the same storage as a tensor of another device of the same kind. Results that ops
  // compute from it belong to that device; the storage itself stays on the account of its first
  // device. On asynchronous devices the caller must ensure with Device::WaitFor that the storage
  // has been written before it is read.
  Tensor ViewOn(const std::shared_ptr<Device>& device) const;
  // ViewOn() for many tensors at once: `device` releases their storages together, after the last of
  // them is released.
  static std::vector<Tensor> ViewsOn(absl::Span<const Tensor> tensors,
                                     const std::shared_ptr<Device>& device);
  // Copies: To another element type (fp32 or bf16), Clone on this device, CopyTo any device.
  Tensor To(DType dtype) const;
  Tensor Clone() const;
  Tensor CopyTo(const std::shared_ptr<Device>& device) const;
  // Returns this tensor if host code can read it, otherwise a copy in host memory.
  Tensor ToHost() const;
  void CopyFrom(const Tensor& source);  // same shape and dtype; any device
  void FillZero();

 private:
  struct Borrowing;
  struct Storage {
    Storage(std::shared_ptr<Device> device, int64_t size_bytes);
    Storage(std::shared_ptr<Borrowing> borrowing, std::shared_ptr<Storage> owner);
    ~Storage();
    std::shared_ptr<Device> device;
    std::shared_ptr<Borrowing> borrowing;  // null if the storage owns its data
    std::shared_ptr<Storage> owner;        // otherwise the owner of the data
    int64_t size_bytes;
    void* data;
  };
  // Storages of other devices that a device releases together.
  struct Borrowing {
    explicit Borrowing(std::shared_ptr<Device> device) : device(std::move(device)) {}
    ~Borrowing();
    std::shared_ptr<Device> device;
    std::vector<std::shared_ptr<Storage>> owners;
  };

  // Returns this tensor on the borrowing device and adds its storage to `borrowing`.
  Tensor BorrowInto(const std::shared_ptr<Borrowing>& borrowing) const;

  std::shared_ptr<Storage> storage_;
  int64_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

// Concatenates tensors along the leading dimension; all other dimensions must agree. A single
// tensor is returned without a copy.
Tensor ConcatBatch(absl::Span<const Tensor> parts);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_TENSOR_H_

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

// A cheap value: copies share the storage. By convention a tensor is written only by the op that
// made it, before anybody else sees it; gradients and parameters, which are updated in place, have
// one owner. A default-constructed tensor is empty (`defined()` is false).
class Tensor {
 public:
  Tensor() = default;

  static Tensor Empty(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype);
  static Tensor Zeros(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype);
  // Copies host values; as many as the shape has elements.
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

  // Host code may follow these pointers only where device()->has_host_memory().
  void* raw_data() const;
  // The elements; T must be the element type.
  template <typename T>
  T* data() const {
    DPIPE_CHECK(DTypeOf<T>::value == dtype_) << "tensor of " << DTypeName(dtype_);
    return static_cast<T*>(raw_data());
  }
  template <typename T>
  absl::Span<T> span() const {
    return absl::Span<T>(data<T>(), num_elements());
  }

  // Views that share the storage: another shape of as many elements; rows [begin, end) of the
  // leading dimension.
  Tensor Reshape(const Shape& shape) const;
  Tensor Slice(int64_t begin, int64_t end) const;
  // The same storage as a tensor of another device of the same kind: what ops make of it is made
  // there, while the storage itself stays on the account of the device that it came from. On
  // devices that run asynchronously the caller has seen to it (Device::WaitFor) that it is written
  // first.
  Tensor On(const std::shared_ptr<Device>& device) const;
  // Many at once: the device gives their storages back all together, when it has let go of the last
  // of them.
  static std::vector<Tensor> AllOn(absl::Span<const Tensor> tensors,
                                   const std::shared_ptr<Device>& device);
  // Copies: of another element type (fp32 and bf16), the same one, and on any other device.
  Tensor To(DType dtype) const;
  Tensor Clone() const;
  Tensor CopyTo(const std::shared_ptr<Device>& device) const;
  // Itself where host code can read it, else a copy that it can read.
  Tensor ToHost() const;
  void CopyFrom(const Tensor& source);  // same shape and dtype; any device
  void FillZero();

 private:
  struct Loan;
  struct Storage {
    Storage(std::shared_ptr<Device> device, int64_t size_bytes);
    Storage(std::shared_ptr<Loan> loan, std::shared_ptr<Storage> lender);
    ~Storage();
    std::shared_ptr<Device> device;
    std::shared_ptr<Loan> loan;       // null: the data is its own
    std::shared_ptr<Storage> lender;  // else whose it is
    int64_t size_bytes;
    void* data;
  };
  // What a device gives back together.
  struct Loan {
    explicit Loan(std::shared_ptr<Device> device) : device(std::move(device)) {}
    ~Loan();
    std::shared_ptr<Device> device;
    std::vector<std::shared_ptr<Storage>> lenders;
  };

  // On the loan's device, as one of those that it gives back.
  Tensor LentBy(const std::shared_ptr<Loan>& loan) const;

  std::shared_ptr<Storage> storage_;
  int64_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

// Joins tensors of one shape (except the leading dimension) along the leading dimension; a single
// one is returned as it is, without a copy.
Tensor ConcatBatch(absl::Span<const Tensor> parts);

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_TENSOR_H_

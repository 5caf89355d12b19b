#include "core/tensor/tensor.h"

namespace dpipe {

Tensor::Storage::Storage(std::shared_ptr<Device> d, int64_t size)
    : device(std::move(d)), size_bytes(size), data(device->allocator().Allocate(size)) {}

Tensor::Storage::Storage(std::shared_ptr<Borrowing> b, std::shared_ptr<Storage> from)
    : device(b->device),
      borrowing(std::move(b)),
      owner(std::move(from)),
      size_bytes(owner->size_bytes),
      data(owner->data) {}

Tensor::Storage::~Storage() {
  if (borrowing == nullptr) device->allocator().Free(data, size_bytes);
}

Tensor::Borrowing::~Borrowing() {
  std::vector<Device::BorrowedBlock> blocks;
  for (const auto& owner : owners) blocks.push_back({owner->device.get(), owner->data});
  device->ReleaseBorrowed(blocks);
}

Tensor Tensor::Empty(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype) {
  DPIPE_CHECK(device != nullptr);
  Tensor t;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.storage_ = std::make_shared<Storage>(device, t.size_bytes());
  return t;
}

Tensor Tensor::Zeros(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype) {
  Tensor t = Empty(device, shape, dtype);
  t.FillZero();
  return t;
}

const std::shared_ptr<Device>& Tensor::device() const {
  DPIPE_CHECK(defined()) << "device of an empty tensor";
  return storage_->device;
}

void* Tensor::raw_data() const {
  DPIPE_CHECK(defined()) << "data of an empty tensor";
  return static_cast<char*>(storage_->data) + offset_bytes_;
}

Tensor Tensor::Reshape(const Shape& shape) const {
  DPIPE_CHECK_EQ(shape.num_elements(), num_elements()) << shape_ << " as " << shape;
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  DPIPE_CHECK(0 <= begin && begin <= end && end <= dim(0))
      << "rows [" << begin << ", " << end << ") of " << shape_;
  Tensor t = *this;
  const int64_t row_bytes = dim(0) == 0 ? 0 : size_bytes() / dim(0);
  t.offset_bytes_ += begin * row_bytes;
  t.shape_.Set(0, end - begin);
  return t;
}

Tensor Tensor::BorrowInto(const std::shared_ptr<Borrowing>& borrowing) const {
  DPIPE_CHECK(borrowing->device->kind() == device()->kind()) << borrowing->device->name();
  Tensor t = *this;
  const std::shared_ptr<Storage>& owner = storage_->owner != nullptr ? storage_->owner : storage_;
  if (borrowing->owners.empty() || borrowing->owners.back() != owner)
    borrowing->owners.push_back(owner);
  t.storage_ = std::make_shared<Storage>(borrowing, owner);
  return t;
}

Tensor Tensor::ViewOn(const std::shared_ptr<Device>& device) const {
  if (this->device() == device) return *this;
  return BorrowInto(std::make_shared<Borrowing>(device));
}

std::vector<Tensor> Tensor::ViewsOn(absl::Span<const Tensor> tensors,
                                    const std::shared_ptr<Device>& device) {
  const auto borrowing = std::make_shared<Borrowing>(device);
  std::vector<Tensor> there;
  for (const Tensor& t : tensors)
    there.push_back(t.device() == device ? t : t.BorrowInto(borrowing));
  return there;
}

Tensor Tensor::To(DType dtype) const {
  if (dtype == dtype_) return Clone();
  Tensor t = Empty(device(), shape_, dtype);
  device()->Convert(t.raw_data(), dtype, raw_data(), dtype_, num_elements());
  return t;
}

Tensor Tensor::Clone() const { return CopyTo(device()); }

Tensor Tensor::CopyTo(const std::shared_ptr<Device>& device) const {
  Tensor t = Empty(device, shape_, dtype_);
  t.CopyFrom(*this);
  return t;
}

Tensor Tensor::ToHost() const {
  return device()->has_host_memory() ? *this : CopyTo(Device::Cpu());
}

void Tensor::CopyFrom(const Tensor& source) {
  DPIPE_CHECK_EQ(source.shape(), shape_);
  DPIPE_CHECK(source.dtype() == dtype_)
      << DTypeName(source.dtype()) << " into " << DTypeName(dtype_);
  CopyBytes(*device(), raw_data(), *source.device(), source.raw_data(), size_bytes());
}

void Tensor::FillZero() { device()->FillZero(raw_data(), size_bytes()); }

Tensor ConcatBatch(absl::Span<const Tensor> parts) {
  DPIPE_CHECK(!parts.empty());
  if (parts.size() == 1) return parts[0];
  int64_t batch = 0;
  for (const Tensor& part : parts) {
    DPIPE_CHECK_EQ(part.shape().WithBatch(0), parts[0].shape().WithBatch(0));
    batch += part.dim(0);
  }
  Tensor joined =
      Tensor::Empty(parts[0].device(), parts[0].shape().WithBatch(batch), parts[0].dtype());
  int64_t row = 0;
  for (const Tensor& part : parts) {
    joined.Slice(row, row + part.dim(0)).CopyFrom(part);
    row += part.dim(0);
  }
  return joined;
}

}  // namespace dpipe

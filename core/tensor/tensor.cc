#include "core/tensor/tensor.h"

namespace dpipe {

Tensor::Storage::Storage(std::shared_ptr<Device> d, int64_t size)
    : device(std::move(d)), size_bytes(size), data(device->allocator().Allocate(size)) {}

Tensor::Storage::Storage(std::shared_ptr<Loan> l, std::shared_ptr<Storage> from)
    : device(l->device),
      loan(std::move(l)),
      lender(std::move(from)),
      size_bytes(lender->size_bytes),
      data(lender->data) {}

Tensor::Storage::~Storage() {
  if (loan == nullptr) device->allocator().Free(data, size_bytes);
}

Tensor::Loan::~Loan() {
  std::vector<Device::Lent> blocks;
  for (const auto& lender : lenders) blocks.push_back({lender->device.get(), lender->data});
  device->GiveBack(blocks);
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

Tensor Tensor::LentBy(const std::shared_ptr<Loan>& loan) const {
  DPIPE_CHECK(loan->device->kind() == device()->kind()) << loan->device->name();
  Tensor t = *this;
  const std::shared_ptr<Storage>& lender =
      storage_->lender != nullptr ? storage_->lender : storage_;
  if (loan->lenders.empty() || loan->lenders.back() != lender) loan->lenders.push_back(lender);
  t.storage_ = std::make_shared<Storage>(loan, lender);
  return t;
}

Tensor Tensor::On(const std::shared_ptr<Device>& device) const {
  if (this->device() == device) return *this;
  return LentBy(std::make_shared<Loan>(device));
}

std::vector<Tensor> Tensor::AllOn(absl::Span<const Tensor> tensors,
                                  const std::shared_ptr<Device>& device) {
  const auto loan = std::make_shared<Loan>(device);
  std::vector<Tensor> there;
  for (const Tensor& t : tensors) there.push_back(t.device() == device ? t : t.LentBy(loan));
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

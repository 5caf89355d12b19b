// Shapes: the sizes of a tensor's dimensions. By convention the first is the batch; images are
// NHWC.
#ifndef DPIPE_CORE_TENSOR_SHAPE_H_
#define DPIPE_CORE_TENSOR_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/base/check.h"

namespace dpipe {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  // Negative indices count from the last dimension.
  int64_t operator[](int i) const { return dims_[Index(i)]; }
  void Set(int i, int64_t size) { dims_[Index(i)] = size; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t d : dims_) n *= d;
    return n;
  }
  absl::Span<const int64_t> dims() const { return dims_; }
  // Returns this shape with another leading dimension.
  Shape WithBatch(int64_t batch) const {
    Shape result = *this;
    result.Set(0, batch);
    return result;
  }
  std::string ToString() const;  // "[2, 16, 16, 4]"

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.ToString(); }

 private:
  int Index(int i) const {
    const int index = i < 0 ? i + rank() : i;
    DPIPE_CHECK(0 <= index && index < rank()) << "dimension " << i << " of " << ToString();
    return index;
  }
  absl::InlinedVector<int64_t, 5> dims_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_SHAPE_H_

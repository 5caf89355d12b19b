// For tests: compares with tensors from PyTorch.
#ifndef DPIPE_MODELS_TESTDATA_GOLDEN_CHECK_H_
#define DPIPE_MODELS_TESTDATA_GOLDEN_CHECK_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/tensor/safetensors.h"
#include "core/tensor/tensor.h"

namespace dpipe::models {

// A file of goldens: fp32 and int32 tensors.
class Goldens {
 public:
  Goldens(const std::string& path, std::shared_ptr<Device> device)
      : file_(Open(path)), device_(std::move(device)) {}

  Tensor Get(const std::string& name) const {
    const SafetensorsView* view = file_.Find(name);
    DPIPE_CHECK(view != nullptr) << file_.name() << " has no '" << name << "'";
    DPIPE_CHECK(view->dtype == "F32" || view->dtype == "I32") << name << " is " << view->dtype;
    Tensor t = Tensor::Empty(device_, Shape(view->shape),
                             view->dtype == "F32" ? DType::kF32 : DType::kI32);
    std::memcpy(t.raw_data(), view->bytes.data(), view->bytes.size());
    return t;
  }
  // Returns an int32 tensor as fp32, the type of samplers' timesteps.
  Tensor GetAsFloats(const std::string& name) const { return ToFloats(Get(name)); }
  static Tensor ToFloats(const Tensor& integers) {
    Tensor floats = Tensor::Empty(integers.device(), integers.shape(), DType::kF32);
    const auto values = integers.span<int32_t>();
    std::copy(values.begin(), values.end(), floats.span<float>().begin());
    return floats;
  }
  float Scalar(const std::string& name) const { return Get(name).data<float>()[0]; }

 private:
  static SafetensorsFile Open(const std::string& path) {
    auto file = SafetensorsFile::Open(path);
    DPIPE_CHECK(file.ok()) << file.status();
    return *std::move(file);
  }

  const SafetensorsFile file_;
  const std::shared_ptr<Device> device_;
};

inline double Norm(const Tensor& t) {
  double sum = 0;
  for (float x : t.span<float>()) sum += double{x} * x;
  return std::sqrt(sum);
}

// Returns |actual - expected| / |expected| in the L2 norm; bf16 is converted to fp32. NaN stays
// NaN.
inline double RelativeError(const Tensor& actual, const Tensor& expected) {
  DPIPE_CHECK_EQ(actual.shape(), expected.shape());
  const Tensor a = actual.To(DType::kF32);
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double d = double{a.data<float>()[i]} - expected.data<float>()[i];
    sum += d * d;
  }
  return std::sqrt(sum) / Norm(expected);
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_GOLDEN_CHECK_H_

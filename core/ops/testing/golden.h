// PyTorch's results of the ops (tests/golden/README.md), for tests.
#ifndef DPIPE_CORE_OPS_TESTING_GOLDEN_H_
#define DPIPE_CORE_OPS_TESTING_GOLDEN_H_

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/testing/op_testing.h"
#include "core/tensor/safetensors.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::ops {

// One case: an op with its attributes, inputs, output and gradients.
class GoldenCase {
 public:
  GoldenCase(const SafetensorsFile* file, std::string name, nlohmann::json attributes)
      : file_(file), name_(std::move(name)), attributes_(std::move(attributes)) {}

  const std::string& name() const { return name_; }
  template <typename T>
  T Attribute(const char* key) const {
    return attributes_.at(key).get<T>();
  }
  bool Has(const std::string& tensor) const { return file_->Find(Path(tensor)) != nullptr; }

  // Returns an fp32 tensor rounded to `dtype`, or an int32 tensor unchanged.
  Tensor Get(const std::string& tensor, const std::shared_ptr<Device>& device,
             DType dtype = DType::kF32) const {
    const SafetensorsView* view = file_->Find(Path(tensor));
    DPIPE_CHECK(view != nullptr) << "no golden " << Path(tensor);
    const bool integers = view->dtype == "I32";
    DPIPE_CHECK(integers || view->dtype == "F32") << Path(tensor) << " is " << view->dtype;
    Tensor t = Tensor::Empty(device, Shape(absl::MakeConstSpan(view->shape)),
                             integers ? DType::kI32 : DType::kF32);
    DPIPE_CHECK_EQ(static_cast<size_t>(t.size_bytes()), view->bytes.size()) << Path(tensor);
    std::memcpy(t.raw_data(), view->bytes.data(), view->bytes.size());
    return integers || dtype == DType::kF32 ? t : t.To(dtype);
  }

 private:
  std::string Path(const std::string& tensor) const { return absl::StrCat(name_, "/", tensor); }

  const SafetensorsFile* file_;
  std::string name_;
  nlohmann::json attributes_;
};

// Returns the cases of an op, by its name in ops.json.
inline std::vector<GoldenCase> GoldenCases(const std::string& op) {
  static const auto& file =
      *new SafetensorsFile(*SafetensorsFile::Open("tests/golden/ops.safetensors"));
  std::ifstream index("tests/golden/ops.json");
  const nlohmann::json all = nlohmann::json::parse(index).at("cases");
  std::vector<GoldenCase> cases;
  for (const auto& item : all.items()) {
    if (item.value().at("op") == op) cases.emplace_back(&file, item.key(), item.value());
  }
  DPIPE_CHECK(!cases.empty()) << "no golden of " << op;
  return cases;
}

// Expects norm(difference) <= bound * norm(expected). Suits rounded inputs, whose errors can be
// relatively large in single elements near zero.
inline void ExpectCloseInNorm(const Tensor& actual, const Tensor& expected, double bound) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const std::vector<double> a = Values(actual), e = Values(expected);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - e[i]) * (a[i] - e[i]);
    norm += e[i] * e[i];
  }
  EXPECT_TRUE(std::sqrt(difference) <= bound * std::sqrt(norm) + 1e-6)  // fails for NaN
      << "relative error " << std::sqrt(difference / norm) << ", bound " << bound;
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_TESTING_GOLDEN_H_

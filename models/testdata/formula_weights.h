// For tests: weights and inputs from a formula, the same as in make_formula_goldens.py.
#ifndef DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_
#define DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "core/nn/parameters.h"

namespace dpipe::models {

// 32 bits for each element of a tensor of that name: bits() in the script.
class FormulaBits {
 public:
  explicit FormulaBits(const std::string& name) {
    for (char c : name) key_ = (key_ ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  uint32_t operator[](uint32_t index) const {
    const uint32_t mixed = (index + key_) * 2654435761u;
    return (mixed ^ (mixed >> 15)) * 2246822519u;
  }
  // Returns a number in [-1, 1).
  double Uniform(uint32_t index) const { return ((*this)[index] >> 8) / 8388608.0 - 1; }

 private:
  uint32_t key_ = 2166136261u;
};

// Sets a parameter as if it were named `name`; see weight() in the script.
inline void SetFormulaWeight(const std::string& name, nn::ParameterId id,
                             nn::ParameterSet* parameters) {
  const Tensor& master = parameters->weight(id).master();
  const FormulaBits bits(name);
  const bool is_vector = master.shape().rank() == 1;
  const bool is_scale = absl::StrContains(name, "norm") && absl::EndsWith(name, "weight");
  const double offset = is_vector && is_scale ? 1 : 0;
  const double fan_in = static_cast<double>(master.num_elements() / master.dim(0));
  const double scale = is_vector ? 0.2 : std::sqrt(1.5 / fan_in);
  float* x = master.data<float>();
  const uint32_t count = static_cast<uint32_t>(master.num_elements());
  for (uint32_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(scale * bits.Uniform(i) + offset);
  }
  parameters->mutable_weight(id)->MarkUpdated();
}

// Sets every parameter by its own name.
inline void SetFormulaWeights(nn::ParameterSet* parameters) {
  for (nn::ParameterId id : parameters->ids()) {
    SetFormulaWeight(parameters->program().parameter(id).name, id, parameters);
  }
}

// Returns fp32 numbers with mean 0 and variance 1; see formula_input() in the script.
inline Tensor FormulaInput(const std::shared_ptr<Device>& device, const std::string& name,
                           const Shape& shape) {
  const FormulaBits bits("input/" + name);
  Tensor t = Tensor::Empty(device, shape, DType::kF32);
  uint32_t index = 0;
  for (float& x : t.span<float>()) {
    x = static_cast<float>(bits.Uniform(index++) * std::sqrt(3.0));
  }
  return t;
}

// Returns int32 numbers in [0, bound); see formula_ids() in the script.
inline Tensor FormulaIds(const std::shared_ptr<Device>& device, const std::string& name,
                         uint32_t bound, const Shape& shape) {
  const FormulaBits bits("input/" + name);
  Tensor t = Tensor::Empty(device, shape, DType::kI32);
  uint32_t index = 0;
  for (int32_t& x : t.span<int32_t>()) x = static_cast<int32_t>((bits[index++] >> 8) % bound);
  return t;
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_

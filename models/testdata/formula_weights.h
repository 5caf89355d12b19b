// Weights from a formula, the same as make_formula_goldens.py's, for tests.
#ifndef DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_
#define DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_

#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "core/nn/parameters.h"

namespace dpipe::models {

// Sets a parameter as if it were named `name`; see weight() in make_formula_goldens.py.
inline void SetFormulaWeight(const std::string& name, nn::ParameterId id,
                             nn::ParameterSet* parameters) {
  const Tensor& master = parameters->weight(id).master();
  uint32_t key = 2166136261u;
  for (char c : name) key = (key ^ static_cast<unsigned char>(c)) * 16777619u;
  const bool is_scale = absl::StrContains(name, "norm") && absl::EndsWith(name, "weight");
  const bool is_vector = master.shape().rank() == 1;
  const double fan_in = static_cast<double>(master.num_elements() / master.dim(0));
  uint32_t index = 0;
  for (float& x : master.span<float>()) {
    uint32_t mixed = (index++ + key) * 2654435761u;
    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    const double uniform = (mixed >> 8) / 8388608.0 - 1;
    x = static_cast<float>(is_vector ? 0.2 * uniform + (is_scale ? 1 : 0)
                                     : uniform * std::sqrt(1.5 / fan_in));
  }
  parameters->mutable_weight(id)->MarkUpdated();
}

// Sets every parameter by its own name.
inline void SetFormulaWeights(nn::ParameterSet* parameters) {
  for (nn::ParameterId id : parameters->ids()) {
    SetFormulaWeight(parameters->program().parameter(id).name, id, parameters);
  }
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_FORMULA_WEIGHTS_H_

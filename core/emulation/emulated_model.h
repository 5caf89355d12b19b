// A model with the structure of a profile's model: the same components, layers, values and
// connections, with one number per sample in place of each tensor.
//
// The numbers are computed, in forward and backward passes, from a layer's inputs and parameters,
// so that losses depend on every pass, message and reduction of a run. A runtime that mixes up
// micro-batches, loses a gradient or reads a value too early gets different losses.
#ifndef DPIPE_CORE_EMULATION_EMULATED_MODEL_H_
#define DPIPE_CORE_EMULATION_EMULATED_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/nn/node.h"
#include "core/nn/parameters.h"
#include "core/proto/profile.pb.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/step_optimizer.h"

namespace dpipe {

// The node that replaces all computation of a real layer.
//
// One number per sample: y = 0.9 t + 0.1 sin t, with t the mean of the inputs plus, if the node has
// a parameter, the mean of its elements. At any depth, y stays as large as the inputs and keeps
// depending on each of them.
class EmulatedNode : public nn::Node {
 public:
  explicit EmulatedNode(bool has_gradient) : has_gradient_(has_gradient) {}

  absl::string_view kind() const override { return "emulated"; }
  nn::ValueType output() const override { return {Shape(), nn::Element::kF32}; }
  bool stops_gradient() const override { return !has_gradient_; }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override;
  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext& context,
                                                nn::SavedTensors* saved,
                                                const Tensor& output_grad) const override;
  absl::Status WeightGrad(const nn::NodeContext& context, nn::SavedTensors* saved) const override;

 private:
  const bool has_gradient_;
};

// Returns a model for a valid profile (see cost/validate.h). Returns InvalidArgument, naming
// component and layer or value, if there is no such program: a value without readers, a layer with
// more than 32 inputs, a gradient with nothing trainable before it, a backbone with several
// outputs.
absl::StatusOr<nn::Model> MakeEmulatedModel(const ModelProfile& profile);

// Inputs and initial parameters of such a model.
class EmulatedInputs : public InputProvider {
 public:
  // `model` outlives this.
  EmulatedInputs(const nn::Model* model, uint64_t seed);

  // Draws external inputs by (seed, component, input, step, sample). An input that a frozen
  // component feeds is computed by that component from its own inputs.
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

  // Returns the sets by component; null for backbones.
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const { return frozen_; }
  // Parameters of the backbones, by name.
  const std::map<std::string, Tensor>& backbone_parameters() const { return backbone_; }

 private:
  absl::StatusOr<Tensor> Compute(int component, const std::string& output, int64_t step,
                                 SampleRange samples, const std::shared_ptr<Device>& device);

  const nn::Model* const model_;
  const uint64_t seed_;
  std::vector<std::unique_ptr<nn::ParameterSet>> frozen_sets_;
  std::vector<const nn::ParameterSet*> frozen_;
  std::map<std::string, Tensor> backbone_;
};

// Returns plain gradient descent.
StepOptimizerFactory EmulatedOptimizer();

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_MODEL_H_

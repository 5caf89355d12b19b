// The node that replaces all computation of a real layer.
#ifndef DPIPE_CORE_EMULATION_EMULATED_NODE_H_
#define DPIPE_CORE_EMULATION_EMULATED_NODE_H_

#include <vector>

#include "core/nn/node.h"

namespace dpipe {

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

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_NODE_H_

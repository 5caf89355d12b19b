#include "core/emulation/emulated_node.h"

#include <cmath>

namespace dpipe {
namespace {

double Mean(const Tensor& tensor) {
  double sum = 0;
  for (float x : tensor.span<float>()) sum += x;
  return sum / static_cast<double>(tensor.num_elements());
}

}  // namespace

// Saves dy/dt, by sample.
absl::StatusOr<Tensor> EmulatedNode::Forward(const nn::NodeContext& context,
                                             absl::Span<const Tensor> inputs,
                                             nn::SavedTensors* saved) const {
  const Tensor y = Tensor::Empty(inputs[0].device(), inputs[0].shape(), DType::kF32);
  const Tensor slope = Tensor::Empty(inputs[0].device(), inputs[0].shape(), DType::kF32);
  const double bias = context.weights.empty() ? 0 : Mean(context.weights[0]->master());
  for (int64_t b = 0; b < y.num_elements(); ++b) {
    double sum = 0;
    for (const Tensor& input : inputs) sum += input.data<float>()[b];
    const double t = sum / static_cast<double>(inputs.size()) + bias;
    y.data<float>()[b] = static_cast<float>(0.9 * t + 0.1 * std::sin(t));
    slope.data<float>()[b] = static_cast<float>(0.9 + 0.1 * std::cos(t));
  }
  if (saved != nullptr) {
    // The second tensor's size is the number of inputs.
    saved->assign(
        {slope, Tensor::Empty(slope.device(), {static_cast<int64_t>(inputs.size())}, DType::kF32)});
  }
  return y;
}

// Leaves dL/dt for the parameter.
absl::StatusOr<std::vector<Tensor>> EmulatedNode::InputGrad(const nn::NodeContext& context,
                                                            nn::SavedTensors* saved,
                                                            const Tensor& output_grad) const {
  const Tensor slope = (*saved)[0];
  const int64_t num_inputs = (*saved)[1].num_elements();
  const Tensor grad = Tensor::Empty(slope.device(), slope.shape(), DType::kF32);
  for (int64_t b = 0; b < grad.num_elements(); ++b) {
    grad.data<float>()[b] = output_grad.data<float>()[b] * slope.data<float>()[b];
  }
  std::vector<Tensor> input_grads(num_inputs);
  for (int64_t i = 0; i < num_inputs; ++i) {
    if (!context.WantsInputGrad(static_cast<int>(i))) continue;
    input_grads[i] = grad.Clone();
    for (float& g : input_grads[i].span<float>()) g /= static_cast<float>(num_inputs);
  }
  saved->clear();
  if (context.wants_weight_grad) saved->push_back(grad);
  return input_grads;
}

absl::Status EmulatedNode::WeightGrad(const nn::NodeContext& context,
                                      nn::SavedTensors* saved) const {
  double sum = 0;
  for (float g : (*saved)[0].span<float>()) sum += g;
  const absl::Span<float> grad = context.weight_grads[0]->span<float>();
  for (float& g : grad) g += static_cast<float>(sum / static_cast<double>(grad.size()));
  saved->clear();
  return absl::OkStatus();
}

}  // namespace dpipe

#include "models/vae/latent_sample_node.h"

#include <memory>

#include "core/base/check.h"
#include "core/ops/diffusion/gaussian_sample.h"

namespace dpipe::models {
namespace {

class LatentSampleNode : public nn::Node {
 public:
  LatentSampleNode(float factor, const Shape& shape) : factor_(factor), shape_(shape) {}

  absl::string_view kind() const override { return "latent_sample"; }
  nn::ValueType output() const override { return {shape_, nn::Element::kF32}; }
  nn::NodeWork Work(const nn::WorkContext& context) const override {
    nn::NodeWork work;
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          context.gradient_bytes(), /*rereads=*/true)};
    work.saved_inputs = 0b11;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext&, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0], inputs[1]};
    return ops::GaussianSampleForward(factor_, inputs[0], inputs[1]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors* saved,
                                                const Tensor& dz) const override {
    std::vector<Tensor> grads(2);
    DPIPE_ASSIGN_OR_RETURN(grads[0],
                           ops::GaussianSampleInputGrad(factor_, (*saved)[0], (*saved)[1], dz));
    return grads;
  }

 private:
  const float factor_;
  const Shape shape_;
};

}  // namespace

ValueId AddLatentSample(nn::ProgramBuilder* builder, ValueId moments, ValueId noise, float factor) {
  const Shape shape = builder->shape(noise);
  DPIPE_CHECK_EQ(builder->shape(moments)[-1], 2 * shape[-1]);
  return builder->AddNode(std::make_unique<LatentSampleNode>(factor, shape), {moments, noise});
}

}  // namespace dpipe::models

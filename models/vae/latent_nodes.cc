#include "models/vae/latent_nodes.h"

#include <memory>
#include <vector>

#include "core/base/check.h"
#include "core/ops/diffusion/diffusion.h"
#include "core/ops/elementwise/elementwise.h"

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

class LatentShiftNode : public nn::Node {
 public:
  LatentShiftNode(float shift, const Shape& shape) : shift_(shift), shape_(shape) {}

  absl::string_view kind() const override { return "latent_shift"; }
  nn::ValueType output() const override { return {shape_, nn::Element::kF32}; }
  nn::NodeWork Work(const nn::WorkContext& context) const override {
    nn::NodeWork work;  // hands its gradient on
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          /*gradient_bytes=*/0, /*rereads=*/false)};
    return work;
  }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext&, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors*) const override {
    const Tensor& x = inputs[0];
    // A table instead of a copy from the host, which CUDA graphs cannot record.
    const Tensor zeros = Tensor::Zeros(x.device(), {x.dim(0) * x.dim(-1)}, DType::kI32);
    DPIPE_ASSIGN_OR_RETURN(const Tensor shifts, ops::LookUp({shift_}, zeros));
    return ops::AddChannels(x, shifts.Reshape({x.dim(0), x.dim(-1)}));
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{dy};
  }

 private:
  const float shift_;
  const Shape shape_;
};

}  // namespace

ValueId AddLatentSample(nn::ProgramBuilder* builder, ValueId moments, ValueId noise, float factor) {
  const Shape shape = builder->shape(noise);
  DPIPE_CHECK_EQ(builder->shape(moments)[-1], 2 * shape[-1]);
  return builder->AddNode(std::make_unique<LatentSampleNode>(factor, shape), {moments, noise});
}

ValueId AddLatentShift(nn::ProgramBuilder* builder, ValueId x, float shift) {
  if (shift == 0) return x;
  DPIPE_CHECK(builder->type(x).element == nn::Element::kF32) << "latents are fp32";
  return builder->AddNode(std::make_unique<LatentShiftNode>(shift, builder->shape(x)), {x});
}

}  // namespace dpipe::models

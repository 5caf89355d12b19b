#include "core/nn/nodes/modulate_node.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/norm/modulate.h"

namespace dpipe::nn {
namespace {

class ModulateNode : public Node {
 public:
  ModulateNode(ValueType output, bool silu) : output_(std::move(output)), silu_(silu) {}

  absl::string_view kind() const override { return silu_ ? "modulate_silu" : "modulate"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          context.gradient_bytes(), /*rereads=*/true)};
    work.saved_inputs = 0b11;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0], inputs[1]};
    return ops::ModulateForward(silu_, inputs[0], inputs[1]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::ModulateGrads grads,
                           ops::ModulateInputGrad(silu_, (*saved)[0], (*saved)[1], dy));
    saved->clear();
    return std::vector<Tensor>{std::move(grads.dx), std::move(grads.dv)};
  }

 private:
  const ValueType output_;
  const bool silu_;
};

}  // namespace

ValueId AddModulation(ProgramBuilder* builder, ValueId x, ValueId v, bool silu) {
  DPIPE_CHECK_EQ(Shape({2 * builder->shape(x)[-1]}), builder->shape(v));
  return builder->AddNode(std::make_unique<ModulateNode>(builder->type(x), silu), {x, v});
}

}  // namespace dpipe::nn

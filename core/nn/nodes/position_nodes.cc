#include "core/nn/nodes/position_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"

namespace dpipe::nn {
namespace {

class RotaryEmbeddingNode : public Node {
 public:
  RotaryEmbeddingNode(const ops::RotaryParams& params, ValueType output)
      : params_(params), output_(std::move(output)) {}

  absl::string_view kind() const override { return "rotary_embedding"; }
  ValueType output() const override { return output_; }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::RotaryEmbeddingForward(params_, inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::RotaryEmbeddingInputGrad(params_, dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const ops::RotaryParams params_;
  const ValueType output_;
};

class PositionTableNode : public Node {
 public:
  PositionTableNode(const ops::PositionTableParams& params, ValueType output)
      : params_(params), output_(std::move(output)) {}

  absl::string_view kind() const override { return "position_table"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;  // hands its gradient on
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          /*gradient_bytes=*/0, /*rereads=*/false)};
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::AddPositionTable(params_, inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{dy};
  }

 private:
  const ops::PositionTableParams params_;
  const ValueType output_;
};

}  // namespace

ValueId AddRotaryEmbedding(ProgramBuilder* builder, ValueId x, const ops::RotaryParams& params) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape.rank(), 2);
  DPIPE_CHECK_EQ(shape[1] % params.head_size(), 0) << "heads of " << params.head_size();
  return builder->AddNode(std::make_unique<RotaryEmbeddingNode>(params, builder->type(x)), {x});
}

ValueId AddPositionTable(ProgramBuilder* builder, ValueId x,
                         const ops::PositionTableParams& params) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape[0], params.rows * params.columns);
  DPIPE_CHECK_EQ(shape[1] % 4, 0);
  return builder->AddNode(std::make_unique<PositionTableNode>(params, builder->type(x)), {x});
}

}  // namespace dpipe::nn

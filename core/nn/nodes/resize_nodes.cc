#include "core/nn/nodes/resize_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/image/average_pool.h"
#include "core/ops/image/resize_bilinear.h"

namespace dpipe::nn {
namespace {

class AveragePoolNode : public Node {
 public:
  explicit AveragePoolNode(ValueType output) : output_(std::move(output)) {}
  absl::string_view kind() const override { return "average_pool2x"; }
  ValueType output() const override { return output_; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::AveragePool2xForward(inputs[0]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::AveragePool2xInputGrad(dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const ValueType output_;
};

class ResizeBilinearNode : public Node {
 public:
  ResizeBilinearNode(ValueType output, Shape x) : output_(std::move(output)), x_(std::move(x)) {}
  absl::string_view kind() const override { return "resize_bilinear"; }
  ValueType output() const override { return output_; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::ResizeBilinearForward(inputs[0], output_.shape[0], output_.shape[1]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::ResizeBilinearInputGrad(dy, x_[0], x_[1]));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const ValueType output_;
  const Shape x_;
};

}  // namespace

ValueId AddAveragePool2x(ProgramBuilder* builder, ValueId x) {
  ValueType output = builder->type(x);
  DPIPE_CHECK_EQ(output.shape.rank(), 3);
  DPIPE_CHECK(output.shape[0] % 2 == 0 && output.shape[1] % 2 == 0) << output.shape;
  output.shape.Set(0, output.shape[0] / 2);
  output.shape.Set(1, output.shape[1] / 2);
  return builder->AddNode(std::make_unique<AveragePoolNode>(output), {x});
}

ValueId AddResizeBilinear(ProgramBuilder* builder, ValueId x, int64_t height, int64_t width) {
  ValueType output = builder->type(x);
  const Shape shape = output.shape;
  DPIPE_CHECK_EQ(shape.rank(), 3);
  output.shape.Set(0, height);
  output.shape.Set(1, width);
  return builder->AddNode(std::make_unique<ResizeBilinearNode>(output, shape), {x});
}

}  // namespace dpipe::nn

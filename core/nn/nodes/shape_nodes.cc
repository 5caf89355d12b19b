#include "core/nn/nodes/shape_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/image/rearrange.h"
#include "core/ops/image/resize.h"

namespace dpipe::nn {
namespace {

// Base of these nodes: holds the output's type, known at construction.
class ShapeNode : public Node {
 public:
  explicit ShapeNode(ValueType output) : output_(std::move(output)) {}
  ValueType output() const override { return output_; }

 protected:
  // Returns the shape of a batch of values of `shape`.
  static Shape Batched(int64_t batch, const Shape& shape) {
    std::vector<int64_t> dims = {batch};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    return Shape(dims);
  }

 private:
  const ValueType output_;
};

class SumNode : public ShapeNode {
 public:
  using ShapeNode::ShapeNode;
  absl::string_view kind() const override { return "sum"; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::Add(inputs[0], inputs[1]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{dy, dy};
  }
};

class ConcatNode : public ShapeNode {
 public:
  ConcatNode(ValueType output, std::vector<int64_t> channels)
      : ShapeNode(std::move(output)), channels_(std::move(channels)) {}
  absl::string_view kind() const override { return "concat"; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::ConcatChannels(inputs);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    return ops::SplitChannels(dy, channels_);
  }

 private:
  const std::vector<int64_t> channels_;
};

class SliceNode : public ShapeNode {
 public:
  SliceNode(ValueType output, int64_t begin, int64_t channels)
      : ShapeNode(std::move(output)), begin_(begin), channels_(channels) {}
  absl::string_view kind() const override { return "slice"; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;  // does not read the rest of its input
    work.ops = {roofline::ElementwiseWork(context.output_bytes, context.output_bytes,
                                          context.gradient_bytes(), /*rereads=*/false)};
    return work;
  }
  bool AddsToGrad() const override { return true; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::SliceChannels(inputs[0], begin_, output().shape[-1]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx,
                           ops::SliceChannelsInputGrad(dy, begin_, channels_, context.later_grad));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const int64_t begin_, channels_;
};

// Cuts an image into patches or, with `joins`, the inverse. `image`: without the batch.
class PatchNode : public ShapeNode {
 public:
  PatchNode(ValueType output, ops::PatchOrder order, int64_t size, const Shape& image, bool joins)
      : ShapeNode(std::move(output)),
        order_(order),
        size_(size),
        height_(image[0]),
        width_(image[1]),
        joins_(joins) {}
  absl::string_view kind() const override { return joins_ ? "unpatchify" : "patchify"; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return Moved(joins_, inputs[0]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, Moved(!joins_, dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  absl::StatusOr<Tensor> Moved(bool join, const Tensor& x) const {
    return join ? ops::Unpatchify(order_, size_, height_, width_, x)
                : ops::Patchify(order_, size_, x);
  }

  const ops::PatchOrder order_;
  const int64_t size_, height_, width_;
  const bool joins_;
};

class UpsampleNode : public ShapeNode {
 public:
  using ShapeNode::ShapeNode;
  absl::string_view kind() const override { return "upsample2x"; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::UpsampleNearest2xForward(inputs[0]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::UpsampleNearest2xInputGrad(dy));
    return std::vector<Tensor>{std::move(dx)};
  }
};

class ReshapeNode : public ShapeNode {
 public:
  ReshapeNode(ValueType output, Shape x) : ShapeNode(std::move(output)), x_(std::move(x)) {}
  absl::string_view kind() const override { return "reshape"; }
  NodeWork Work(const WorkContext&) const override { return {}; }  // a view
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return inputs[0].Reshape(Batched(inputs[0].dim(0), output().shape));
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{dy.Reshape(Batched(dy.dim(0), x_))};
  }

 private:
  const Shape x_;
};

class ScaleNode : public ShapeNode {
 public:
  ScaleNode(ValueType output, float factor) : ShapeNode(std::move(output)), factor_(factor) {}
  absl::string_view kind() const override { return "scale"; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::Scale(factor_, inputs[0]);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::Scale(factor_, dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const float factor_;
};

class DetachNode : public ShapeNode {
 public:
  explicit DetachNode(ValueType output) : ShapeNode(std::move(output)) {}
  absl::string_view kind() const override { return "detach"; }
  NodeWork Work(const WorkContext&) const override { return {}; }  // a view
  bool stops_gradient() const override { return true; }
  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return inputs[0];
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("a detached value has no gradient");
  }
};

class CastNode : public ShapeNode {
 public:
  CastNode(ValueType output, Element from) : ShapeNode(std::move(output)), from_(from) {}
  absl::string_view kind() const override { return "cast"; }
  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return To(inputs[0], ResolveElement(output().element, context.compute_dtype));
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors*,
                                                const Tensor& dy) const override {
    return std::vector<Tensor>{To(dy, ResolveElement(from_, context.compute_dtype))};
  }

 private:
  static Tensor To(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : x.To(dtype); }
  const Element from_;
};

}  // namespace

ValueId AddSum(ProgramBuilder* builder, ValueId a, ValueId b) {
  DPIPE_CHECK_EQ(builder->shape(a), builder->shape(b));
  return builder->AddNode(std::make_unique<SumNode>(builder->type(a)), {a, b});
}

ValueId AddConcat(ProgramBuilder* builder, const std::vector<ValueId>& parts) {
  DPIPE_CHECK(!parts.empty());
  ValueType output = builder->type(parts[0]);
  std::vector<int64_t> channels;
  int64_t sum = 0;
  for (ValueId part : parts) {
    Shape shape = builder->shape(part);
    channels.push_back(shape[-1]);
    sum += shape[-1];
    shape.Set(-1, output.shape[-1]);
    DPIPE_CHECK_EQ(shape, output.shape);
  }
  output.shape.Set(-1, sum);
  return builder->AddNode(std::make_unique<ConcatNode>(output, channels), parts);
}

ValueId AddSlice(ProgramBuilder* builder, ValueId x, int64_t begin, int64_t width) {
  ValueType output = builder->type(x);
  const int64_t channels = output.shape[-1];
  DPIPE_CHECK(0 <= begin && 0 < width && begin + width <= channels)
      << "elements [" << begin << ", " << begin + width << ") of " << output.shape;
  output.shape.Set(-1, width);
  return builder->AddNode(std::make_unique<SliceNode>(output, begin, channels), {x});
}

ValueId AddJoinTokens(ProgramBuilder* builder, ValueId a, ValueId b) {
  const Shape first = builder->shape(a), second = builder->shape(b);
  DPIPE_CHECK_EQ(first[1], second[1]);
  const auto flat = [&](ValueId x) {
    return AddReshape(builder, x, Shape({builder->shape(x).num_elements()}));
  };
  const ValueId joined = AddConcat(builder, {flat(a), flat(b)});
  return AddReshape(builder, joined, Shape({first[0] + second[0], first[1]}));
}

ValueId AddSliceTokens(ProgramBuilder* builder, ValueId x, int64_t begin, int64_t count) {
  const Shape shape = builder->shape(x);
  const int64_t width = shape[1];
  const ValueId flat = AddReshape(builder, x, Shape({shape[0] * width}));
  return AddReshape(builder, AddSlice(builder, flat, begin * width, count * width),
                    Shape({count, width}));
}

ValueId AddPatchify(ProgramBuilder* builder, ValueId x, ops::PatchOrder order, int64_t size) {
  const ValueType& type = builder->type(x);
  const Shape image = type.shape;
  DPIPE_CHECK(image[0] % size == 0 && image[1] % size == 0)
      << image << " in patches of " << size << " x " << size;
  const ValueType output{Shape({image[0] / size * (image[1] / size), image[2] * size * size}),
                         type.element};
  return builder->AddNode(std::make_unique<PatchNode>(output, order, size, image, /*joins=*/false),
                          {x});
}

ValueId AddUnpatchify(ProgramBuilder* builder, ValueId patches, ops::PatchOrder order, int64_t size,
                      int64_t height, int64_t width) {
  const ValueType& type = builder->type(patches);
  const Shape image({height, width, type.shape[1] / (size * size)});
  DPIPE_CHECK_EQ(type.shape, Shape({height / size * (width / size), image[2] * size * size}));
  return builder->AddNode(std::make_unique<PatchNode>(ValueType{image, type.element}, order, size,
                                                      image, /*joins=*/true),
                          {patches});
}

ValueId AddUpsample2x(ProgramBuilder* builder, ValueId x) {
  ValueType output = builder->type(x);
  DPIPE_CHECK_EQ(output.shape.rank(), 3);
  output.shape.Set(0, 2 * output.shape[0]);
  output.shape.Set(1, 2 * output.shape[1]);
  return builder->AddNode(std::make_unique<UpsampleNode>(output), {x});
}

ValueId AddReshape(ProgramBuilder* builder, ValueId x, const Shape& shape) {
  const ValueType& type = builder->type(x);
  DPIPE_CHECK_EQ(type.shape.num_elements(), shape.num_elements());
  const ValueType output{shape, type.element};
  return builder->AddNode(std::make_unique<ReshapeNode>(output, type.shape), {x});
}

ValueId AddScale(ProgramBuilder* builder, ValueId x, float factor) {
  return builder->AddNode(std::make_unique<ScaleNode>(builder->type(x), factor), {x});
}

ValueId AddDetach(ProgramBuilder* builder, ValueId x) {
  return builder->AddNode(std::make_unique<DetachNode>(builder->type(x)), {x});
}

ValueId AddCast(ProgramBuilder* builder, ValueId x, Element element) {
  const ValueType& type = builder->type(x);
  DPIPE_CHECK(element != Element::kI32 && type.element != Element::kI32);
  const ValueType output{type.shape, element};
  return builder->AddNode(std::make_unique<CastNode>(output, type.element), {x});
}

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

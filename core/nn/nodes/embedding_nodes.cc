#include "core/nn/nodes/embedding_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/embedding.h"

namespace dpipe::nn {
namespace {

class TokenEmbeddingNode : public Node {
 public:
  explicit TokenEmbeddingNode(const Shape& y) : y_(y) {}

  absl::string_view kind() const override { return "embedding"; }
  ValueType output() const override { return {y_, Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0]};
    return ops::EmbeddingForward(inputs[0], context.weights[0]->master(),
                                 context.weights[1]->master(), context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    saved->push_back(dy);
    return std::vector<Tensor>(1);
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::EmbeddingWeightGrad((*saved)[0], (*saved)[1], context.weight_grads[0],
                                    context.weight_grads[1]);
  }

 private:
  const Shape y_;
};

class TimeEmbeddingNode : public Node {
 public:
  explicit TimeEmbeddingNode(const ops::TimeEmbeddingParams& params) : params_(params) {}

  absl::string_view kind() const override { return "time_embedding"; }
  ValueType output() const override { return {Shape({params_.dim}), Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors*) const override {
    return ops::TimeEmbedding(params_, inputs[0], context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("timesteps have no gradient");
  }

 private:
  const ops::TimeEmbeddingParams params_;
};

}  // namespace

ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec) {
  const Shape shape = builder->shape(ids);
  DPIPE_CHECK_EQ(shape.rank(), 1);
  DPIPE_CHECK_LE(shape[0], spec.positions);
  const ParameterId table = builder->AddParameter(
      spec.table_name, Shape({spec.vocabulary, spec.width}), InitRule::Normal(0.02f), true);
  const ParameterId positions = builder->AddParameter(
      spec.positions_name, Shape({spec.positions, spec.width}), InitRule::Normal(0.01f), true);
  return builder->AddNode(std::make_unique<TokenEmbeddingNode>(Shape({shape[0], spec.width})),
                          {ids}, {table, positions});
}

ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params) {
  DPIPE_CHECK_EQ(builder->shape(timesteps).rank(), 0);
  return builder->AddNode(std::make_unique<TimeEmbeddingNode>(params), {timesteps});
}

}  // namespace dpipe::nn

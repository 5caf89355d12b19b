#include <map>
#include <set>
#include <utility>

#include "core/schedule/testing/symbolic_run.h"
#include "core/schedule/testing/symbolic_values.h"

namespace dpipe {
namespace {

using namespace symbolic;  // NOLINT: the symbols are this file's subject

// Trains the model that a plan describes as one process would, on symbolic values.
class WholeModel {
 public:
  WholeModel(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost) {
    for (int component : cost.backbones()) {
      for (int l = 0; l < cost.num_layers(component); ++l) {
        weights_[component].push_back(InitialWeight(component, l));
      }
    }
    for (const Stage& stage : plan.stages()) {
      if (stage.forward_only()) conditioned_.insert(stage.component());
    }
  }

  void Step(int step) {
    for (int component : cost_.backbones()) {
      // [sample][layer]
      std::vector<std::vector<Hash>> gradients;
      for (int n = 0; n < plan_.global_batch(); ++n) {
        gradients.push_back(Train(component, n, step));
      }
      for (int l = 0; l < cost_.num_layers(component); ++l) {
        Hash& weight = weights_[component][l];
        weight = SteppedWeight(weight, Total(component, l, gradients));
      }
    }
  }

  std::vector<std::vector<Hash>> ByRank() const {
    std::vector<std::vector<Hash>> by_rank(plan_.devices_size());
    for (const Stage& stage : plan_.stages()) {
      if (stage.forward_only()) continue;
      const std::vector<Hash>& all = weights_.at(stage.component());
      for (int rank : stage.ranks()) {
        by_rank[rank].insert(by_rank[rank].end(), all.begin() + stage.layers().begin(),
                             all.begin() + stage.layers().end());
      }
    }
    return by_rank;
  }

 private:
  Hash Sources(const std::map<int, Hash>& outputs, int component, int layer) const {
    Hash hash = 0;
    for (int source : cost_.SourcesOf(component, {layer, layer + 1})) {
      hash = AddSource(hash, outputs.at(source));
    }
    return hash;
  }

  // Runs one sample through one backbone, forward and backward. Returns the weight gradient of
  // every layer.
  std::vector<Hash> Train(int component, int n, int step) const {
    std::map<int, Hash> outputs;
    for (int frozen : cost_.frozen_components()) {
      Hash value = Loaded(frozen, n, step);
      for (int l = 0; l < cost_.num_layers(frozen); ++l) {
        value = FrozenLayer(frozen, l, value, Sources(outputs, frozen, l));
      }
      outputs[frozen] = value;
    }
    const int num_layers = cost_.num_layers(component);
    std::vector<Hash> inputs;
    const auto forward = [&](Hash value) {
      inputs.clear();
      for (int l = 0; l < num_layers; ++l) {
        inputs.push_back(value);
        value = ForwardLayer(l, value, weights_.at(component)[l], Sources(outputs, component, l));
      }
      return value;
    };
    const Hash input = BackboneInput(component, n, step);
    Hash output = forward(input);
    if (conditioned_.count(component) > 0) output = forward(WithEstimate(input, output));
    std::vector<Hash> gradients(num_layers);
    Hash arriving = LossGradient(output);
    for (int l = num_layers - 1; l >= 0; --l) {
      gradients[l] = WeightGrad(l, arriving, inputs[l]);
      arriving = GradLayer(l, arriving, inputs[l]);
    }
    return gradients;
  }

  // Returns the gradient of one layer: the sum over the samples on each rank that holds the layer,
  // then the sum over these ranks.
  Hash Total(int component, int layer, const std::vector<std::vector<Hash>>& gradients) const {
    const int num_groups = plan_.num_devices() / plan_.devices_per_pipeline();
    const int group_batch = plan_.global_batch() / num_groups;
    std::map<int, Hash> sums;  // by rank
    for (const Stage& stage : plan_.stages()) {
      if (stage.forward_only() || stage.component() != component) continue;
      if (layer < stage.layers().begin() || layer >= stage.layers().end()) continue;
      const PipelineChain& chain = plan_.chains(stage.chain());
      const int replicas = stage.ranks_size() / num_groups;
      const int size = chain.micro_batch_size() / replicas;
      for (int j = 0; j < stage.ranks_size(); ++j) {
        Hash& sum = sums[stage.ranks(j)];
        for (int m = 0; m < chain.num_micro_batches(); ++m) {
          const int begin = j / replicas * group_batch + chain.first_sample() +
                            m * chain.micro_batch_size() + j % replicas * size;
          for (int n = begin; n < begin + size; ++n) sum = AddGradient(sum, gradients[n][layer]);
        }
      }
    }
    if (sums.size() == 1) return sums.begin()->second;
    Hash total = kReduce;
    for (const auto& [rank, sum] : sums) total = Reduced(total, sum);
    return total;
  }

  const Plan& plan_;
  const CostModel& cost_;
  std::map<int, std::vector<Hash>> weights_;  // by backbone, then layer
  std::set<int> conditioned_;                 // backbones that run two laps
};

}  // namespace

std::vector<std::vector<uint64_t>> ExpectedWeights(const Plan& plan, const CostModel& cost,
                                                   int num_steps) {
  WholeModel model(plan, cost);
  for (int step = 0; step < num_steps; ++step) model.Step(step);
  return model.ByRank();
}

}  // namespace dpipe

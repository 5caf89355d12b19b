#include "core/profile/component_work.h"

#include <set>
#include <utility>
#include <vector>

#include "core/profile/describe.h"

namespace dpipe {
namespace {

// Sums memory per layer over the nodes of a program.
class MemoryOfLayers {
 public:
  explicit MemoryOfLayers(const nn::Program& program)
      : program_(program), saved_values_(program.num_layers()), saved_bytes_(program.num_layers()) {
    for (int v = 0; v < program.num_values(); ++v) storage_.push_back(v);
  }

  void AddNode(const nn::NodeInfo& node, const nn::NodeWork& work) {
    // Inputs were seen before, so their storage_ is the value that owns the memory.
    if (work.ops.empty()) storage_[node.output.value()] = storage_[node.inputs[0].value()];
    if (!node.has_backward()) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if ((work.saved_inputs >> i) & 1u) Save(node.layer, node.inputs[i]);
    }
    if (work.saves_output) Save(node.layer, node.output);
    saved_bytes_[node.layer] += work.saved_bytes;
  }

  // Writes the sums to the profile; call this after all nodes have been added.
  void WriteTo(ComponentProfile* profile) const {
    for (int l = 0; l < profile->layers_size(); ++l) {
      int64_t saved = saved_bytes_[l];
      for (int value : saved_values_[l]) saved += Bytes(value);
      profile->mutable_layers(l)->set_saved_bytes_per_sample(saved);
    }
    std::vector<bool> leaves_layer(storage_.size());
    for (int v = 0; v < program_.num_values(); ++v) {
      const nn::ValueInfo& value = program_.value(ValueId(v));
      if (value.is_external() || value.is_output || value.last_layer > value.layer) {
        leaves_layer[storage_[v]] = true;
      }
    }
    for (int v = 0; v < program_.num_values(); ++v) {
      if (storage_[v] != v || leaves_layer[v]) continue;
      LayerProfile* layer = profile->mutable_layers(program_.value(ValueId(v)).layer);
      layer->set_workspace_bytes_per_sample(layer->workspace_bytes_per_sample() + Bytes(v));
    }
  }

 private:
  int64_t Bytes(int value) const { return program_.BytesPerSample(ValueId(value), DType::kBf16); }
  void Save(int layer, ValueId value) { saved_values_[layer].insert(storage_[value.value()]); }

  const nn::Program& program_;
  std::vector<int> storage_;  // per value: the value whose memory it shares, or itself
  std::vector<std::set<int>> saved_values_;
  std::vector<int64_t> saved_bytes_;
};

}  // namespace

roofline::ComponentWork WorkOf(const nn::Component& component) {
  const nn::Program& program = component.program;
  roofline::ComponentWork result;
  result.profile = DescribeComponent(component, DType::kBf16);
  MemoryOfLayers memory(program);
  for (int l = 0; l < program.num_layers(); ++l) {
    std::vector<roofline::OpWork>& ops = result.ops.emplace_back();
    for (int n = program.layer(l).begin_node; n < program.layer(l).end_node; ++n) {
      const nn::NodeWork work = program.Work(nn::NodeId(n));
      ops.insert(ops.end(), work.ops.begin(), work.ops.end());
      memory.AddNode(program.node(nn::NodeId(n)), work);
    }
  }
  memory.WriteTo(&result.profile);
  return result;
}

double MacsPerSample(const nn::Model& model, bool with_frozen) {
  double macs = 0;
  for (int c = 0; c < model.num_components(); ++c) {
    const nn::Component& component = model.component(c);
    if (!component.is_backbone && !with_frozen) continue;
    for (const auto& layer : WorkOf(component).ops) {
      for (const roofline::OpWork& op : layer) {
        macs += static_cast<double>(op.forward.macs);
        if (!component.is_backbone) continue;
        macs += static_cast<double>(op.input_grad.macs) + static_cast<double>(op.weight_grad.macs);
      }
    }
  }
  return macs;
}

}  // namespace dpipe

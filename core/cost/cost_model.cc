#include "core/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/cost/validate.h"

namespace dpipe {
namespace {

Nanos BytesTime(double bytes, double bandwidth_bytes_per_s) {
  return static_cast<Nanos>(std::ceil(bytes / bandwidth_bytes_per_s * kNanosPerSecond));
}

int64_t RangeSum(const std::vector<int64_t>& prefix, LayerRange layers) {
  return prefix[layers.end] - prefix[layers.begin];
}

}  // namespace

absl::StatusOr<CostModel> CostModel::Create(const ModelProfile& profile,
                                            const ClusterSpec& cluster) {
  DPIPE_RETURN_IF_ERROR(ValidateProfile(profile));
  DPIPE_RETURN_IF_ERROR(ValidateCluster(cluster));
  CostModel model;
  model.profile_ = std::make_shared<const ModelProfile>(profile);
  model.cluster_ = cluster;
  model.frozen_quantum_ = std::max(1, profile.frozen_quantum());
  model.frozen_order_ = FrozenOrder(profile);
  model.times_ = std::make_shared<TimesCache>();
  for (int c = 0; c < profile.components_size(); ++c) {
    const ComponentProfile& component = profile.components(c);
    if (component.is_backbone()) model.backbone_ = c;
    model.prefixes_.push_back(MakePrefixes(component));
    model.layer_sources_.emplace_back(component.layers_size());
    for (const ValueProfile& value : component.values()) {
      if (value.source_component().empty()) continue;
      const int source = ComponentIndex(profile, value.source_component());
      for (int layer : value.consumer_layers()) model.layer_sources_[c][layer].push_back(source);
    }
  }
  return model;
}

CostModel::Prefixes CostModel::MakePrefixes(const ComponentProfile& component) {
  const int count = component.layers_size();
  Prefixes p;
  for (auto* field :
       {&p.parameter, &p.trainable, &p.saved, &p.optimizer, &p.cut, &p.cut_gradient}) {
    field->assign(count + 1, 0);
  }
  for (int i = 0; i < count; ++i) {
    const LayerProfile& layer = component.layers(i);
    p.parameter[i + 1] = p.parameter[i] + layer.parameter_bytes();
    p.trainable[i + 1] = p.trainable[i] + layer.trainable_parameter_bytes();
    p.saved[i + 1] = p.saved[i] + layer.saved_bytes_per_sample();
    p.optimizer[i + 1] = p.optimizer[i] + layer.optimizer_step_ns();
  }
  for (const ValueProfile& value : component.values()) {
    if (value.is_output()) p.output += value.bytes_per_sample();
    if (value.producer_layer() < 0) {
      if (value.source_component().empty()) p.loaded += value.bytes_per_sample();
      continue;
    }
    if (value.consumer_layers().empty()) continue;
    const int last = value.consumer_layers(value.consumer_layers_size() - 1);
    for (int cut = value.producer_layer() + 1; cut <= last; ++cut) {
      p.cut[cut] += value.bytes_per_sample();
      if (value.has_gradient()) p.cut_gradient[cut] += value.bytes_per_sample();
    }
  }
  return p;
}

std::vector<int> CostModel::SourcesOf(int component, LayerRange layers) const {
  std::vector<int> sources;
  for (int l = layers.begin; l < layers.end; ++l) {
    const std::vector<int>& of_layer = layer_sources_[component][l];
    sources.insert(sources.end(), of_layer.begin(), of_layer.end());
  }
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  return sources;
}

std::vector<int> CostModel::ValuesAtCut(int component, int cut) const {
  std::vector<int> values;
  const ComponentProfile& profile = profile_->components(component);
  for (int v = 0; v < profile.values_size(); ++v) {
    const ValueProfile& value = profile.values(v);
    if (value.producer_layer() < 0 || value.producer_layer() >= cut) continue;
    if (value.consumer_layers().empty()) continue;
    if (value.consumer_layers(value.consumer_layers_size() - 1) >= cut) values.push_back(v);
  }
  return values;
}

const LayerTimes& CostModel::Times(int component, int batch) const {
  DPIPE_CHECK_GE(batch, 1);
  std::lock_guard<std::mutex> lock(times_->mutex);
  std::unique_ptr<LayerTimes>& times = times_->by_batch[{component, batch}];
  if (times == nullptr) {
    times = std::make_unique<LayerTimes>(profile_->components(component), batch);
  }
  return *times;
}

Nanos CostModel::Load(int component, int samples) const {
  if (component == backbone_) return profile_->cached_load_ns_per_sample() * samples;
  return profile_->components(component).load_ns_per_sample() * samples;
}

Nanos CostModel::Optimizer(LayerRange layers) const {
  return profile_->optimizer_fixed_ns() + RangeSum(prefixes_[backbone_].optimizer, layers);
}

Nanos CostModel::InstructionTime(const Instruction& instruction) const {
  const LayerRange layers{instruction.layers().begin(), instruction.layers().end()};
  const int batch = instruction.samples().end() - instruction.samples().begin();
  switch (instruction.kind()) {
    case Instruction::LOAD_BATCH:
      return Load(instruction.component(), batch);
    case Instruction::FORWARD:
      return Times(backbone_, batch).Forward(layers);
    case Instruction::BACKWARD:
      return Times(backbone_, batch).Backward(layers);
    case Instruction::INPUT_GRAD:
      return Times(backbone_, batch).InputGrad(layers);
    case Instruction::WEIGHT_GRAD:
      return Times(backbone_, batch).WeightGrad(layers);
    case Instruction::FROZEN_FORWARD:
      return Times(instruction.component(), batch).Forward(layers);
    default:
      return 0;
  }
}

int64_t CostModel::ParameterBytes(int component, LayerRange layers) const {
  return RangeSum(prefixes_[component].parameter, layers);
}

int64_t CostModel::GradientBytes(LayerRange layers) const {
  return RangeSum(prefixes_[backbone_].trainable, layers);
}

int64_t CostModel::SavedBytesPerSample(int component, LayerRange layers) const {
  return RangeSum(prefixes_[component].saved, layers);
}

int64_t CostModel::WorkspaceBytesPerSample(int component, LayerRange layers) const {
  int64_t largest = 0;
  for (int l = layers.begin; l < layers.end; ++l) {
    largest = std::max<int64_t>(
        largest, profile_->components(component).layers(l).workspace_bytes_per_sample());
  }
  return largest;
}

int64_t CostModel::CutBytesPerSample(int component, int cut) const {
  return prefixes_[component].cut[cut];
}

int64_t CostModel::CutGradientBytesPerSample(int component, int cut) const {
  return prefixes_[component].cut_gradient[cut];
}

int64_t CostModel::OutputBytesPerSample(int component) const { return prefixes_[component].output; }

int64_t CostModel::LoadedBytesPerSample(int component) const { return prefixes_[component].loaded; }

int64_t CostModel::StateBytes(LayerRange layers) const {
  const int64_t masters = ParameterBytes(backbone_, layers);
  const int64_t working_copy = profile_->dtype() == "bf16" ? masters / 2 : 0;
  return masters + working_copy + 3 * GradientBytes(layers);
}

int64_t CostModel::StageBytes(LayerRange layers, int local_batch, int in_flight) const {
  return StateBytes(layers) + local_batch * (in_flight * SavedBytesPerSample(backbone_, layers) +
                                             WorkspaceBytesPerSample(backbone_, layers));
}

Nanos CostModel::Transfer(int from, int to, int64_t bytes) const {
  const Link& link = NodeOf(from) == NodeOf(to) ? cluster_.intra_node() : cluster_.inter_node();
  return link.latency_ns() + BytesTime(static_cast<double>(bytes), link.bandwidth_bytes_per_s());
}

Nanos CostModel::AllReduce(const std::vector<int>& ranks, int64_t bytes) const {
  const int n = static_cast<int>(ranks.size());
  if (n <= 1) return 0;
  bool within = true, across = false;
  for (int rank : ranks) across |= NodeOf(rank) != NodeOf(ranks[0]);
  if (across) {  // a node that holds one of them only uses no link of its own
    within = false;
    for (int i = 1; i < n; ++i) within |= NodeOf(ranks[i]) == NodeOf(ranks[i - 1]);
  }
  Nanos latency = 0;
  double bandwidth = INFINITY;
  for (const auto& [used, link] : {std::make_pair(within, cluster_.intra_node()),
                                   std::make_pair(across, cluster_.inter_node())}) {
    if (!used) continue;
    latency = std::max<Nanos>(latency, link.latency_ns());
    bandwidth = std::min(bandwidth, link.bandwidth_bytes_per_s());
  }
  int depth = 0;
  while ((1 << depth) < n) ++depth;
  // Ring: 2 (n-1) steps of 1/n of the data. Tree: up and down, the data streaming through.
  const double size = static_cast<double>(bytes);
  const Nanos ring = 2 * (n - 1) * latency + BytesTime(2 * size * (n - 1) / n, bandwidth);
  const Nanos tree = 2 * depth * latency + BytesTime(2 * size, bandwidth);
  return std::min(ring, tree);
}

Nanos CostModel::GlobalNorm() const {
  std::vector<int> ranks(num_devices());
  for (int r = 0; r < num_devices(); ++r) ranks[r] = r;
  return AllReduce(ranks, sizeof(double));
}

}  // namespace dpipe

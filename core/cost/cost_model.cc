#include "core/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/cost/collectives.h"
#include "core/cost/validate.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

Nanos BytesTime(double bytes, double bandwidth_bytes_per_s) {
  return static_cast<Nanos>(std::ceil(bytes / bandwidth_bytes_per_s * kNanosPerSecond));
}

// Slowness is a binary fraction, so that integers decide how times are rounded.
constexpr int64_t kSlownessOne = int64_t{1} << 32;

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
  model.whole_cluster_ = cluster;
  model.SetDevices();
  for (int c = 0; c < profile.components_size(); ++c) {
    const ComponentProfile& component = profile.components(c);
    if (component.is_backbone()) model.backbones_.push_back(c);
    model.times_.push_back(std::make_shared<TimesCache>());
    model.blocks_.push_back(std::make_shared<const RecomputeBlocks>(component));
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

void CostModel::SetDevices() {
  const int count = num_devices();
  interfaces_per_node_ = std::max(1, cluster_.interfaces_per_node());
  speed_.assign(count, 1);
  memory_limit_.assign(count, cluster_.memory_bytes_per_device());
  for (const DeviceClass& device_class : cluster_.device_classes()) {
    const int end = device_class.first_rank() + device_class.num_devices();
    for (int rank = device_class.first_rank(); rank < end; ++rank) {
      speed_[rank] = device_class.speed();
      if (device_class.memory_bytes() > 0) memory_limit_[rank] = device_class.memory_bytes();
    }
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) {
    slowness_.push_back(static_cast<int64_t>(kSlownessOne / speed_[rank]));
    uniform_ &= slowness_[rank] == kSlownessOne;
    ranks.push_back(rank);
  }
  shared_links_ = SharedLinks(cluster_);
  global_norm_ = NumberSumTime(GroupOfRanks(cluster_, ranks));
}

CostModel::Prefixes CostModel::MakePrefixes(const ComponentProfile& component) {
  const int count = component.layers_size();
  Prefixes p;
  for (auto* field :
       {&p.parameter, &p.trainable, &p.saved, &p.optimizer, &p.cut, &p.cut_gradient, &p.moved}) {
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
    const int last = value.consumer_layers().empty()
                         ? -1
                         : value.consumer_layers(value.consumer_layers_size() - 1);
    for (int cut = value.producer_layer() + 1; cut < count; ++cut) {
      if (cut <= last || value.is_output()) p.moved[cut] += value.bytes_per_sample();
    }
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
  TimesCache& cache = *times_[component];
  const bool quick = batch < TimesCache::kQuickBatches;
  if (quick) {
    const LayerTimes* known = cache.quick[batch].load(std::memory_order_acquire);
    if (known != nullptr) return *known;
  }
  std::lock_guard<std::mutex> lock(cache.mutex);
  std::unique_ptr<LayerTimes>& times = cache.by_batch[batch];
  if (times == nullptr) {
    times = std::make_unique<LayerTimes>(profile_->components(component), batch);
    if (quick) cache.quick[batch].store(times.get(), std::memory_order_release);
  }
  return *times;
}

Nanos CostModel::OnRank(Nanos time, int rank) const {
  const int64_t slowness = slowness_[rank];
  if (slowness == kSlownessOne) return time;
  return static_cast<Nanos>((static_cast<__int128>(time) * slowness + kSlownessOne - 1) >> 32);
}

Nanos CostModel::Load(int component, int samples) const {
  if (IsBackbone(component)) return profile_->cached_load_ns_per_sample() * samples;
  return profile_->components(component).load_ns_per_sample() * samples;
}

Nanos CostModel::OptimizerShare(int component, LayerRange layers, int shards) const {
  return (RangeSum(prefixes_[component].optimizer, layers) + shards - 1) / shards;
}

Nanos CostModel::PassTime(Instruction::Kind kind, int component, LayerRange layers,
                          int batch) const {
  switch (kind) {
    case Instruction::LOAD_BATCH:
      return Load(component, batch);
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::FROZEN_FORWARD:
      return Times(component, batch).Forward(layers);
    case Instruction::BACKWARD:
      return Times(component, batch).Backward(layers);
    case Instruction::INPUT_GRAD:
      return Times(component, batch).InputGrad(layers);
    case Instruction::WEIGHT_GRAD:
      return Times(component, batch).WeightGrad(layers);
    default:
      return 0;
  }
}

Nanos CostModel::InstructionTime(const Plan& plan, const Instruction& instruction, int rank) const {
  const bool has_component = instruction.kind() == Instruction::LOAD_BATCH ||
                             instruction.kind() == Instruction::FROZEN_FORWARD;
  int component = instruction.component();
  if (!has_component && instruction.stage() >= 0) {
    component = plan.stages(instruction.stage()).component();
  }
  const LayerRange layers = LayersIn(instruction);
  const int batch = instruction.samples().end() - instruction.samples().begin();
  return OnRank(PassTime(instruction.kind(), component, layers, batch), rank);
}

int64_t CostModel::ParameterBytes(int component, LayerRange layers) const {
  return RangeSum(prefixes_[component].parameter, layers);
}

int64_t CostModel::GradientBytes(int component, LayerRange layers) const {
  return RangeSum(prefixes_[component].trainable, layers);
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

int64_t CostModel::MovedBytesPerSample(int component, int cut) const {
  return prefixes_[component].moved[cut];
}

int64_t CostModel::LoadedBytesPerSample(int component) const { return prefixes_[component].loaded; }

int64_t CostModel::StateBytes(int component, LayerRange layers) const {
  const int64_t masters = ParameterBytes(component, layers);
  const int64_t working_copy = profile_->dtype() == "bf16" ? masters / 2 : 0;
  const int64_t gradients = GradientBytes(component, layers);
  const double kept = profile_->optimizer_bytes_per_parameter();
  const double parameters = static_cast<double>(gradients) / sizeof(float);
  return masters + working_copy + gradients + std::llround(parameters * (kept > 0 ? kept : 8));
}

int64_t CostModel::FrozenStateBytes(int component, LayerRange layers) const {
  const int64_t weights = ParameterBytes(component, layers) - GradientBytes(component, layers);
  return weights + (profile_->dtype() == "bf16" ? weights / 2 : 0);
}

int64_t CostModel::ShardedStateBytes(int component, LayerRange layers, int64_t shards,
                                     bool keeps_frozen) const {
  const int64_t kept = keeps_frozen ? FrozenStateBytes(component, layers) : 0;
  return kept + (StateBytes(component, layers) - kept + shards - 1) / shards;
}

int64_t CostModel::StageBytes(int component, LayerRange layers, int local_batch,
                              int in_flight) const {
  return StateBytes(component, layers) +
         local_batch * (in_flight * SavedBytesPerSample(component, layers) +
                        WorkspaceBytesPerSample(component, layers));
}

double CostModel::BandwidthBetween(int from, int to) const {
  const Link& link = NodeOf(from) == NodeOf(to) ? cluster_.intra_node() : cluster_.inter_node();
  double bandwidth = link.bandwidth_bytes_per_s();
  if (cluster_.shared_links().empty()) return bandwidth;
  for (int shared : shared_links_.OnPath(from, to)) {
    bandwidth = std::min(bandwidth, shared_links_.bandwidth_bytes_per_s(shared));
  }
  return bandwidth;
}

Nanos CostModel::Transfer(int from, int to, int64_t bytes) const {
  return LatencyBetween(from, to) +
         BytesTime(static_cast<double>(bytes), BandwidthBetween(from, to));
}

void CostModel::AppendLinksOf(int from, int to, int64_t bytes, std::vector<LinkUse>* uses) const {
  for (int link : shared_links_.OnPath(from, to)) {
    const double bandwidth = shared_links_.bandwidth_bytes_per_s(link);
    uses->push_back(
        {link, LatencyBetween(from, to) + BytesTime(static_cast<double>(bytes), bandwidth)});
  }
}

bool CostModel::HasIdenticalGroups(int devices_per_group) const {
  const int in_node = cluster_.devices_per_node();
  if (devices_per_group < 1 || num_devices() % devices_per_group != 0) return false;
  const int sharing = in_node / interfaces_per_node_;  // devices per interface
  const bool inside = in_node % devices_per_group == 0 &&
                      (devices_per_group % sharing == 0 || sharing % devices_per_group == 0);
  if (!inside && devices_per_group % in_node != 0) return false;
  // Groups of one device have no messages.
  for (const SharedLink& shared : cluster_.shared_links()) {
    if (devices_per_group == 1 || devices_per_group % shared.devices() == 0) continue;
    const bool stays = shared.carries() == SharedLink::LEAVING;
    if (!stays || shared.devices() % devices_per_group != 0) return false;
  }
  return uniform_ && std::all_of(memory_limit_.begin(), memory_limit_.end(),
                                 [this](int64_t limit) { return limit == memory_limit_[0]; });
}

CostModel CostModel::ForOneGroup(int devices_per_group) const {
  DPIPE_CHECK(HasIdenticalGroups(devices_per_group)) << "groups of " << devices_per_group;
  CostModel group = *this;
  group.num_groups_ = num_devices() / devices_per_group;
  if (devices_per_group < cluster_.devices_per_node()) {
    group.cluster_.set_num_nodes(1);
    group.cluster_.set_devices_per_node(devices_per_group);
  } else {
    group.cluster_.set_num_nodes(devices_per_group / cluster_.devices_per_node());
  }
  return group;
}

std::vector<int> CostModel::InAllGroups(const std::vector<int>& ranks) const {
  std::vector<int> all;
  for (int g = 0; g < num_groups_; ++g) {
    for (int rank : ranks) all.push_back(g * num_devices() + rank);
  }
  return all;
}

CollectiveGroup CostModel::Members(const std::vector<int>& ranks) const {
  return GroupOfRanks(whole_cluster_, InAllGroups(ranks));
}

Nanos CostModel::Collective(CollectiveKind kind, const std::vector<int>& ranks,
                            int64_t bytes) const {
  return CollectiveTime(kind, Members(ranks), bytes);
}

Nanos CostModel::Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes,
                            std::vector<LinkUse>* uses) const {
  const CollectiveGroup group = Members(ranks);
  const Nanos duration = CollectiveTime(kind, group, bytes);
  if (group.num_nodes > 1) {
    std::vector<int> interfaces;
    shared_links_.AppendInterfacesOf(ranks, &interfaces);
    for (int link : interfaces) uses->push_back({link, duration});
  }
  if (cluster_.shared_links().empty()) return duration;
  const double share = (group.num_ranks - 1.0) / group.num_ranks;
  for (const SharedLinks::RingUse& use : shared_links_.OfRing(InAllGroups(ranks))) {
    uses->push_back(
        {use.link, BytesTime(LapsOf(kind) * share * static_cast<double>(bytes) * use.edges,
                             shared_links_.bandwidth_bytes_per_s(use.link))});
  }
  return duration;
}

Nanos CostModel::AllReduce(const std::vector<int>& ranks, int64_t bytes) const {
  return AllReduceTime(Members(ranks), bytes);
}

Nanos CostModel::ReduceScatter(const std::vector<int>& ranks, int64_t bytes) const {
  return ReduceScatterTime(Members(ranks), bytes);
}

Nanos CostModel::AllGather(const std::vector<int>& ranks, int64_t bytes) const {
  return AllGatherTime(Members(ranks), bytes);
}

}  // namespace dpipe

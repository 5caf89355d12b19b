// What everything costs: a ModelProfile and a ClusterSpec, validated and made quick to query.
//
// Components and layers are the profile's indices, ranks are numbered node by node, times are
// integer nanoseconds and sizes bytes. A "cut" c of a component lies between its layers c-1 and c.
// Queries are const and thread-safe; a range of layers costs O(1) once a (component, batch) has
// been asked for. [algorithms.md §1, §6]
#ifndef DPIPE_CORE_COST_COST_MODEL_H_
#define DPIPE_CORE_COST_COST_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/layer_times.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

class CostModel {
 public:
  // InvalidArgument, naming component, layer or value, field and both values, if the profile or the
  // cluster contradicts itself (see validate.h). Exactly one component is the backbone.
  static absl::StatusOr<CostModel> Create(const ModelProfile& profile, const ClusterSpec& cluster);

  const ModelProfile& profile() const { return *profile_; }
  const ClusterSpec& cluster() const { return cluster_; }
  int num_devices() const { return cluster_.num_nodes() * cluster_.devices_per_node(); }

  // ---- Structure ----
  int num_components() const { return profile_->components_size(); }
  int backbone() const { return backbone_; }
  // Every frozen component, each after those it reads from.
  const std::vector<int>& frozen_components() const { return frozen_order_; }
  int num_layers(int component) const { return profile_->components(component).layers_size(); }
  LayerRange AllLayers(int component) const { return {0, num_layers(component)}; }
  int frozen_quantum() const { return frozen_quantum_; }  // >= 1
  // The frozen components whose outputs `layers` of `component` read; increasing.
  std::vector<int> SourcesOf(int component, LayerRange layers) const;
  // Values made before the cut and read at or after it; external inputs are not among them.
  // Increasing.
  std::vector<int> ValuesAtCut(int component, int cut) const;

  // ---- Compute ----
  // Prefix sums at one local batch (>= 1), made on first use and kept.
  const LayerTimes& Times(int component, int batch) const;
  Nanos Forward(int component, LayerRange layers, int batch) const {
    return Times(component, batch).Forward(layers);
  }
  Nanos Backward(int component, LayerRange layers, int batch) const {
    return Times(component, batch).Backward(layers);
  }
  // Host work to have the loaded inputs of a frozen component at hand, or of a cached batch where
  // `component` is the backbone.
  Nanos Load(int component, int samples) const;
  // The optimizer's step over these layers of the backbone, its fixed part included.
  Nanos Optimizer(LayerRange layers) const;
  // LOAD_BATCH, FORWARD, BACKWARD, INPUT_GRAD, WEIGHT_GRAD and FROZEN_FORWARD; of a FORWARD and the
  // gradients, `layers` are the backbone's. 0 for other kinds.
  Nanos InstructionTime(const Instruction& instruction) const;

  // ---- Bytes ----
  int64_t ParameterBytes(int component, LayerRange layers) const;
  // Of the backbone: what a gradient all-reduce of these layers moves (fp32).
  int64_t GradientBytes(LayerRange layers) const;
  int64_t SavedBytesPerSample(int component, LayerRange layers) const;
  int64_t WorkspaceBytesPerSample(int component, LayerRange layers) const;  // largest; O(layers)
  // Of the values at a cut: forward, and of the gradients of those that have one.
  int64_t CutBytesPerSample(int component, int cut) const;
  int64_t CutGradientBytesPerSample(int component, int cut) const;
  // Of all values of a component that others read: what a FROZEN_OUTPUT message carries.
  int64_t OutputBytesPerSample(int component) const;
  // Of the external inputs that come from no other component.
  int64_t LoadedBytesPerSample(int component) const;

  // ---- Memory of one device ----
  // Master weights, gradients and two Adam moments of these layers of the backbone (fp32), and the
  // bf16 working copy where the profile's dtype is bf16.
  int64_t StateBytes(LayerRange layers) const;
  // StateBytes, what `in_flight` micro-batches of `local_batch` samples keep for their backward
  // passes, and the largest layer's workspace.
  int64_t StageBytes(LayerRange layers, int local_batch, int in_flight) const;

  // ---- Communication ----
  int NodeOf(int rank) const { return rank / cluster_.devices_per_node(); }
  // One message over an idle link: latency + bytes / bandwidth, rounded up; ranks differ.
  Nanos Transfer(int from, int to, int64_t bytes) const;
  // The quicker of ring and tree all-reduce over the slowest link between any two of `ranks`; 0 for
  // one rank. Never less for two halves than for the whole.
  Nanos AllReduce(const std::vector<int>& ranks, int64_t bytes) const;
  // The all-reduce of one number over every rank, which a global gradient norm costs.
  Nanos GlobalNorm() const;

 private:
  struct Prefixes {  // [i]: of layers [0, i)
    std::vector<int64_t> parameter, trainable, saved, optimizer;
    std::vector<int64_t> cut, cut_gradient;  // [c]: at cut c
    int64_t output = 0, loaded = 0;
  };
  struct TimesCache {
    std::mutex mutex;
    std::map<std::pair<int, int>, std::unique_ptr<LayerTimes>> by_batch;
  };

  CostModel() = default;
  static Prefixes MakePrefixes(const ComponentProfile& component);

  std::shared_ptr<const ModelProfile> profile_;
  ClusterSpec cluster_;
  int backbone_ = 0;
  int frozen_quantum_ = 1;
  std::vector<int> frozen_order_;
  std::vector<Prefixes> prefixes_;                            // by component
  std::vector<std::vector<std::vector<int>>> layer_sources_;  // [component][layer]
  std::shared_ptr<TimesCache> times_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_COST_MODEL_H_

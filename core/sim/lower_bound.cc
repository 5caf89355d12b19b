#include "core/sim/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/cost/layer_times.h"
#include "core/sim/check_plan.h"
#include "core/sim/stage_times.h"

namespace dpipe {

namespace {

// One chain's stages on one device: the part of the chain that a rank there holds.
struct ChainPart {
  int first_stage = -1;           // lowest stage
  int first_gradient_stage = -1;  // lowest stage that carries a gradient
  int num_gradient_stages = 0;
  std::vector<int> stages;
};

class BoundMaker {
 public:
  BoundMaker(const Plan& plan, const CostModel& cost)
      : plan_(plan),
        cost_(cost),
        times_(TimesOfBackbones(plan, cost)),
        norm_(plan.global_norm() ? cost.GlobalNorm() : 0),
        way_in_(plan.stages_size(), 0),
        way_out_(plan.stages_size(), 0),
        queued_way_out_(plan.stages_size(), 0) {}

  StepBound Make() {
    bound_.path_ns.assign(plan_.stages_size(), 0);
    const std::vector<PipelineChain> chains = ChainsOf(plan_);
    for (const PipelineChain& chain : chains) AddChain(chain);
    AddDevicesAndWork();
    if (plan_.global_norm()) AddCommon();
    bound_.bound_ns =
        std::max({bound_.work_ns, bound_.device_ns, bound_.common_ns, bound_.micro_batch_path_ns});
    for (Nanos path : bound_.path_ns) bound_.bound_ns = std::max(bound_.bound_ns, path);
    return std::move(bound_);
  }

 private:
  const StageTimes& Times(int stage) const { return times_.stages[stage]; }

  Nanos MinOptimizer(int stage) const {
    Nanos minimum = times_.optimizer[plan_.stages(stage).ranks(0)];
    for (int rank : plan_.stages(stage).ranks()) {
      minimum = std::min(minimum, times_.optimizer[rank]);
    }
    return minimum;
  }

  // Computes the ways in and out of every stage, then the paths through the devices.
  void AddChain(const PipelineChain& chain) {
    const int begin = chain.first_stage(), end = begin + chain.num_stages();
    int first_gradient = begin;
    while (plan_.stages(first_gradient).forward_only()) ++first_gradient;
    for (int s = begin + 1; s < end; ++s) {
      way_in_[s] = way_in_[s - 1] + Times(s - 1).forward + Times(s).receive_activations;
      if (s <= first_gradient) continue;
      const StageTimes& before = Times(s - 1);
      // The first stage's weight gradients come before its optimizer step, too.
      const Nanos pass = s - 1 == first_gradient ? before.backward : before.gradient;
      way_out_[s] = way_out_[s - 1] + before.shortest_gradient + pass;
      queued_way_out_[s] = queued_way_out_[s - 1] + before.receive_gradients + pass;
    }
    const Nanos start = MinOptimizer(begin) + norm_;
    const Nanos last_pass =
        end - 1 == first_gradient ? Times(end - 1).backward : Times(end - 1).gradient;
    bound_.micro_batch_path_ns =
        std::max(bound_.micro_batch_path_ns,
                 start + way_in_[end - 1] + Times(end - 1).forward + last_pass + way_out_[end - 1]);
    std::map<int, ChainPart> parts;  // by a device's first rank
    for (int s = begin; s < end; ++s) {
      ChainPart& part = parts[plan_.stages(s).ranks(0)];
      if (part.stages.empty()) part.first_stage = s;
      part.stages.push_back(s);
      if (plan_.stages(s).forward_only()) continue;
      if (part.num_gradient_stages++ == 0) part.first_gradient_stage = s;
    }
    for (auto& [rank, part] : parts) {
      const Nanos path = PathOf(part, start, first_gradient);
      for (int s : part.stages) bound_.path_ns[s] = path;
      parts_[rank].emplace_back(MinOptimizer(begin), std::move(part));
    }
  }

  Nanos PathOf(const ChainPart& part, Nanos start, int first_gradient) const {
    // All passes end before the optimizer step of a rank on which the chain begins.
    const bool is_first = part.first_gradient_stage == first_gradient;
    Nanos minimum = -1;
    for (int j = 0; j < plan_.stages(part.first_stage).ranks_size(); ++j) {
      Nanos work = 0;
      for (int s : part.stages) work += Times(s).spine[j] + (is_first ? Times(s).weights[j] : 0);
      if (minimum < 0 || work < minimum) minimum = work;
    }
    const bool queued = !times_.splits_gradients && part.num_gradient_stages == 1;
    return start + way_in_[part.first_stage] + minimum +
           (queued ? queued_way_out_ : way_out_)[part.first_gradient_stage];
  }

  // Returns, by rank, the backbone passes and loads of cached batches.
  std::vector<Nanos> RankWork(bool with_weights) const {
    std::vector<Nanos> work(plan_.devices_size(), 0);
    if (with_weights) work = times_.loads;
    for (int s = 0; s < plan_.stages_size(); ++s) {
      const auto& ranks = plan_.stages(s).ranks();
      for (int j = 0; j < ranks.size(); ++j) {
        work[ranks[j]] += Times(s).spine[j] + (with_weights ? Times(s).weights[j] : 0);
      }
    }
    return work;
  }

  // In a step of length T, rank r has T - w_r left for frozen work; at speed v_r that is v_r (T -
  // w_r) of the profile's time. All frozen work must fit: T >= (frozen + sum v_r w_r) / sum v_r.
  void AddDevicesAndWork() {
    const std::vector<Nanos> work = RankWork(/*with_weights=*/true);
    long double weighted = FrozenWork(), speeds = 0;
    for (int r = 0; r < plan_.devices_size(); ++r) {
      const Nanos busy = work[r] + times_.optimizer[r];
      bound_.device_ns = std::max(bound_.device_ns, busy + norm_);
      weighted += static_cast<long double>(cost_.SpeedOf(r)) * busy;
      speeds += cost_.SpeedOf(r);
    }
    // OnRank rounds speeds to 2^-32, a relative error of 2^-32 times the speed; no speed exceeds
    // 1,000.
    const long double slack = cost_.IsUniform() ? 1 : 1 - 1e-6L;
    bound_.work_ns = static_cast<Nanos>(std::floor(weighted / speeds * slack));
  }

  void AddCommon() {
    const std::vector<Nanos> all = RankWork(true), spine = RankWork(false);
    for (const auto& [first_rank, chains] : parts_) {
      const ChainPart& any = chains[0].second;
      Nanos way_in = -1, way_out = -1;
      for (const auto& [optimizer, part] : chains) {
        const Nanos in = optimizer + way_in_[part.first_stage];
        const Nanos out = way_out_[part.first_gradient_stage];
        if (way_in < 0 || in < way_in) way_in = in;
        if (way_out < 0 || out < way_out) way_out = out;
      }
      for (int rank : plan_.stages(any.first_stage).ranks()) {
        const Nanos start = std::max(times_.optimizer[rank], way_in);
        // The rank itself loads cached batches, possibly while it waits.
        const Nanos passes = all[rank] - times_.loads[rank];
        bound_.common_ns = std::max(
            {bound_.common_ns, start + passes + norm_, start + spine[rank] + way_out + norm_});
      }
    }
  }

  // Returns a step's frozen work over all devices, in the profile's time.
  long double FrozenWork() const {
    if (plan_.cached_frozen_outputs()) return 0;
    const int batch = plan_.global_batch();
    const int smallest = std::min(batch, std::max(1, plan_.frozen_quantum()));
    long double work = 0;
    for (int component : cost_.frozen_components()) {
      work += cost_.Load(component, batch);
      for (const LayerProfile& layer : cost_.profile().components(component).layers()) {
        work += static_cast<long double>(MinForwardPerSample(layer, smallest, batch)) * batch;
      }
    }
    return std::floor(work);
  }

  const Plan& plan_;
  const CostModel& cost_;
  const BackboneTimes times_;
  const Nanos norm_;
  std::vector<Nanos> way_in_, way_out_, queued_way_out_;  // by stage
  // By a device's first rank: its chains, each with the minimum optimizer step where it begins.
  std::map<int, std::vector<std::pair<Nanos, ChainPart>>> parts_;
  StepBound bound_;
};

}  // namespace

StepBound StepLowerBound(const Plan& plan, const CostModel& cost) {
  return BoundMaker(plan, cost).Make();
}

namespace {

// Returns the time of all passes per sample.
long double PerSample(const CostModel& cost, int component, int layer, int batch) {
  const LayerTimes& times = cost.Times(component, batch);
  const LayerRange one{layer, layer + 1};
  const long double forward_passes = 1 + cost.profile().self_conditioning_probability();
  return (forward_passes * times.Forward(one) + times.Backward(one)) / batch;
}

long double BackboneWork(const CostModel& cost, int component, int global_batch, int local_batch) {
  long double work = 0;
  const int from = local_batch > 0 ? local_batch : 1;
  const int to = local_batch > 0 ? local_batch : global_batch;
  for (int layer = 0; layer < cost.num_layers(component); ++layer) {
    long double minimum = std::numeric_limits<long double>::infinity();
    for (int batch = from; batch <= to; ++batch) {
      minimum = std::min(minimum, PerSample(cost, component, layer, batch));
    }
    work += minimum * global_batch;
  }
  return work;
}

long double FrozenWork(const CostModel& cost, int component, int global_batch) {
  const int smallest = std::min(global_batch, std::max(1, cost.frozen_quantum()));
  long double work = cost.Load(component, global_batch);
  for (const LayerProfile& layer : cost.profile().components(component).layers()) {
    work +=
        static_cast<long double>(MinForwardPerSample(layer, smallest, global_batch)) * global_batch;
  }
  return work;
}

}  // namespace

Nanos WorkBound(const CostModel& cost, int global_batch, int local_batch) {
  long double work = 0, speeds = 0;
  for (int backbone : cost.backbones()) {
    work += BackboneWork(cost, backbone, global_batch, local_batch);
    work += cost.OptimizerShare(backbone, cost.AllLayers(backbone));
  }
  for (int component : cost.frozen_components()) work += FrozenWork(cost, component, global_batch);
  for (int rank = 0; rank < cost.num_devices(); ++rank) speeds += cost.SpeedOf(rank);
  // Batch times are rounded up to nanoseconds, and speeds have a relative error of 1e-6.
  const long double slack = cost.IsUniform() ? 1 : 1 - 1e-6L;
  return static_cast<Nanos>(std::floor(work / speeds * slack));
}

}  // namespace dpipe

#include "core/sim/lower_bound.h"

#include <algorithm>
#include <cmath>

namespace dpipe {
namespace {

LayerRange LayersOf(const Stage& stage) { return {stage.layers().begin(), stage.layers().end()}; }

bool SplitsGradients(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& instruction : program.instructions()) {
      if (instruction.kind() == Instruction::INPUT_GRAD) return true;
    }
  }
  return false;
}

// What one stage does in a step, on each of its ranks.
struct StageTimes {
  Nanos forward = 0;   // of one micro-batch
  Nanos gradient = 0;  // what must run before its gradient goes to the stage before
  Nanos backward = 0;  // input and weight gradients
  Nanos optimizer = 0;
  // The least time, over the ranks of the stage, to receive one micro-batch from the stage before,
  // or its gradient from the stage after.
  Nanos receive_activation = 0;
  Nanos receive_gradient = 0;
};

class BoundMaker {
 public:
  BoundMaker(const Plan& plan, const CostModel& cost)
      : plan_(plan), cost_(cost), splits_gradients_(SplitsGradients(plan)) {
    for (int s = 0; s < plan.stages_size(); ++s) stages_.push_back(TimesOf(s));
  }

  StepBound Make() const {
    StepBound bound;
    const Nanos norm = plan_.global_norm() ? cost_.GlobalNorm() : 0;
    const int count = plan_.stages_size();
    const int num_micro_batches = plan_.num_micro_batches();
    Nanos backbone_work = 0;
    // The way to stage s and back: of the stages and links before it.
    Nanos way = stages_[0].optimizer + norm;
    for (int s = 0; s < count; ++s) {
      const StageTimes& t = stages_[s];
      const Nanos work = num_micro_batches * (t.forward + t.backward) + t.optimizer;
      backbone_work += work * plan_.stages(s).ranks_size();
      bound.device_ns = std::max(bound.device_ns, work);
      if (s > 0) way += t.receive_activation;
      // Stage 0's own weight gradients come before its optimizer step, whichever stage is looked
      // at.
      const Nanos gradient = s == 0 ? t.backward : t.gradient;
      bound.path_ns.push_back(way + num_micro_batches * (t.forward + t.gradient) +
                              (s == 0 ? num_micro_batches * (t.backward - t.gradient) : 0));
      if (s + 1 == count) bound.micro_batch_path_ns = way + t.forward + gradient;
      way += t.forward + t.receive_gradient + gradient;
    }
    const int num_devices = plan_.devices_size();
    bound.work_ns = (backbone_work + FrozenWork()) / num_devices;
    bound.bound_ns = std::max(bound.work_ns, bound.device_ns);
    for (Nanos path : bound.path_ns) bound.bound_ns = std::max(bound.bound_ns, path);
    return bound;
  }

 private:
  int Replicas(int stage) const {
    return plan_.stages(stage).ranks_size() * plan_.devices_per_pipeline() / plan_.num_devices();
  }

  StageTimes TimesOf(int s) const {
    const LayerRange layers = LayersOf(plan_.stages(s));
    const LayerTimes& times = cost_.Times(cost_.backbone(), plan_.micro_batch_size() / Replicas(s));
    StageTimes t;
    t.forward = times.Forward(layers);
    t.backward = times.Backward(layers);
    t.gradient = splits_gradients_ ? times.InputGrad(layers) : t.backward;
    t.optimizer = cost_.Optimizer(layers);
    if (s > 0) {
      t.receive_activation =
          Receive(s - 1, s, cost_.CutBytesPerSample(cost_.backbone(), layers.begin),
                  /*queue=*/true);
    }
    if (s + 1 < plan_.stages_size()) {
      t.receive_gradient =
          Receive(s + 1, s, cost_.CutGradientBytesPerSample(cost_.backbone(), layers.end),
                  /*queue=*/!splits_gradients_);
    }
    return t;
  }

  // The least over the receiving ranks of all groups. `queue`: none of the messages to a rank can
  // leave before the moment from which this counts, and one receive engine takes them in turn;
  // otherwise only one of them need be late. (Ranks of a stage end with the same micro-batch unless
  // input gradients are split off.)
  Nanos Receive(int from, int to, int64_t bytes_per_sample, bool queue) const {
    const int from_count = Replicas(from), to_count = Replicas(to);
    const int from_size = plan_.micro_batch_size() / from_count;
    const int to_size = plan_.micro_batch_size() / to_count;
    Nanos least = -1;
    for (int j = 0; j < plan_.stages(to).ranks_size(); ++j) {
      const int group = j / to_count;
      const SampleRange wanted{j % to_count * to_size, (j % to_count + 1) * to_size};
      Nanos sum = 0, shortest = -1;
      for (int i = 0; i < from_count; ++i) {
        const SampleRange common = wanted.Intersect({i * from_size, (i + 1) * from_size});
        if (common.empty()) continue;
        const Nanos transfer =
            cost_.Transfer(plan_.stages(from).ranks(group * from_count + i),
                           plan_.stages(to).ranks(j), bytes_per_sample * common.size());
        sum += transfer;
        if (shortest < 0 || transfer < shortest) shortest = transfer;
      }
      const Nanos time = queue ? sum : shortest;
      if (least < 0 || time < least) least = time;
    }
    return least;
  }

  // Of a step, over all devices.
  Nanos FrozenWork() const {
    const int batch = plan_.global_batch();
    if (plan_.cached_frozen_outputs()) {
      Nanos work = 0;
      for (const Stage& stage : plan_.stages()) {
        if (cost_.SourcesOf(cost_.backbone(), LayersOf(stage)).empty()) continue;
        work += cost_.Load(cost_.backbone(), batch);
      }
      return work;
    }
    long double work = 0;
    for (int component : cost_.frozen_components()) {
      work += cost_.Load(component, batch);
      for (const LayerProfile& layer : cost_.profile().components(component).layers()) {
        work += static_cast<long double>(LeastForwardPerSample(
                    layer, std::min(batch, std::max(1, plan_.frozen_quantum())), batch)) *
                batch;
      }
    }
    return static_cast<Nanos>(std::floor(work));
  }

  const Plan& plan_;
  const CostModel& cost_;
  const bool splits_gradients_;
  std::vector<StageTimes> stages_;
};

}  // namespace

StepBound StepLowerBound(const Plan& plan, const CostModel& cost) {
  return BoundMaker(plan, cost).Make();
}

}  // namespace dpipe

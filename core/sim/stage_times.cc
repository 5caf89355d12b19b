#include "core/sim/stage_times.h"

#include <algorithm>

#include "core/proto/instruction_parts.h"
#include "core/sim/check_plan.h"

namespace dpipe {

std::vector<Nanos> OptimizerTimes(const Plan& plan, const CostModel& cost) {
  std::vector<Nanos> times(plan.devices_size(), cost.profile().optimizer_fixed_ns());
  for (const Stage& stage : plan.stages()) {
    if (stage.forward_only()) continue;
    const LayerRange layers = LayersIn(stage);
    const int shards = stage.sharded() ? stage.ranks_size() * cost.num_groups() : 1;
    const Nanos share = cost.OptimizerShare(stage.component(), layers, shards);
    for (int rank : stage.ranks()) times[rank] += share;
  }
  for (int rank = 0; rank < plan.devices_size(); ++rank) {
    times[rank] = cost.OnRank(times[rank], rank);
  }
  return times;
}

namespace {

constexpr Nanos kNone = -1;

void UpdateMin(Nanos candidate, Nanos* minimum) {
  if (*minimum == kNone || candidate < *minimum) *minimum = candidate;
}

bool SplitsGradients(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& instruction : program.instructions()) {
      if (instruction.kind() == Instruction::INPUT_GRAD) return true;
    }
  }
  return false;
}

// Transfer times of one rank's messages at one stage.
struct Received {
  std::vector<Nanos> activations, gradients;  // sums by micro-batch; kNone without messages
};

class TimesCollector {
 public:
  TimesCollector(const Plan& plan, const CostModel& cost)
      : plan_(plan), cost_(cost), received_(plan.stages_size()) {
    times_.splits_gradients = SplitsGradients(plan);
    times_.optimizer = OptimizerTimes(plan, cost);
    times_.loads.assign(plan.devices_size(), 0);
    times_.stages.resize(plan.stages_size());
  }

  BackboneTimes Collect() {
    const int num_micro_batches = MaxMicroBatches(plan_);
    for (const PipelineChain& chain : ChainsOf(plan_)) {
      for (int k = 0; k < chain.num_stages(); ++k) SetStage(chain, chain.first_stage() + k);
    }
    std::vector<std::vector<int>> stages_of(plan_.devices_size());
    for (int s = 0; s < plan_.stages_size(); ++s) {
      for (int rank : plan_.stages(s).ranks()) stages_of[rank].push_back(s);
      received_[s].activations.assign(num_micro_batches, kNone);
      received_[s].gradients.assign(num_micro_batches, kNone);
    }
    for (int rank = 0; rank < plan_.devices_size(); ++rank) AddRank(rank, stages_of[rank]);
    for (StageTimes& stage : times_.stages) {
      for (Nanos* time :
           {&stage.receive_activations, &stage.receive_gradients, &stage.shortest_gradient}) {
        *time = std::max<Nanos>(*time, 0);
      }
    }
    return std::move(times_);
  }

 private:
  // Sets the times of one micro-batch on the fastest rank.
  void SetStage(const PipelineChain& chain, int s) {
    const Stage& stage = plan_.stages(s);
    StageTimes& t = times_.stages[s];
    t.spine.assign(stage.ranks_size(), 0);
    t.weights.assign(stage.ranks_size(), 0);
    t.receive_activations = t.receive_gradients = t.shortest_gradient = kNone;
    const int replicas = stage.ranks_size() * plan_.devices_per_pipeline() / plan_.num_devices();
    const LayerTimes& times =
        cost_.Times(stage.component(), chain.micro_batch_size() / std::max(1, replicas));
    const LayerRange layers = LayersIn(stage);
    t.forward = t.gradient = t.backward = kNone;
    for (int rank : stage.ranks()) {
      UpdateMin(cost_.OnRank(times.Forward(layers), rank), &t.forward);
      UpdateMin(cost_.OnRank(times.Backward(layers), rank), &t.backward);
      const Nanos gradient =
          times_.splits_gradients ? times.InputGrad(layers) : times.Backward(layers);
      UpdateMin(cost_.OnRank(gradient, rank), &t.gradient);
    }
  }

  void AddRank(int rank, const std::vector<int>& stages) {
    std::vector<int> place;  // index of the rank in each of its stages
    for (int s : stages) {
      const auto& ranks = plan_.stages(s).ranks();
      place.push_back(
          static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()));
    }
    const auto place_in = [&](int stage) {
      return place[std::find(stages.begin(), stages.end(), stage) - stages.begin()];
    };
    for (const Instruction& instruction : plan_.devices(rank).instructions()) {
      switch (instruction.kind()) {
        case Instruction::FORWARD:
        case Instruction::RECOMPUTE:
        case Instruction::BACKWARD:
        case Instruction::INPUT_GRAD:
          times_.stages[instruction.stage()].spine[place_in(instruction.stage())] +=
              cost_.InstructionTime(plan_, instruction, rank);
          break;
        case Instruction::WEIGHT_GRAD:
          times_.stages[instruction.stage()].weights[place_in(instruction.stage())] +=
              cost_.InstructionTime(plan_, instruction, rank);
          break;
        case Instruction::LOAD_BATCH:
          if (cost_.IsBackbone(instruction.component())) {
            times_.loads[rank] += cost_.InstructionTime(plan_, instruction, rank);
          }
          break;
        case Instruction::RECV:
          Receive(rank, instruction);
          break;
        default:
          break;
      }
    }
    for (int s : stages) {
      Settle(&received_[s].activations, &times_.stages[s].receive_activations);
      Settle(&received_[s].gradients, &times_.stages[s].receive_gradients);
    }
  }

  void Receive(int rank, const Instruction& recv) {
    if (IsOfFrozen(recv.payload())) return;
    const Nanos time = cost_.Transfer(recv.peer(), rank, recv.bytes());
    const bool gradient = recv.payload() == Instruction::GRADIENT;
    if (gradient) UpdateMin(time, &times_.stages[recv.stage()].shortest_gradient);
    Received& of_stage = received_[recv.stage()];
    Nanos& sum = (gradient ? of_stage.gradients : of_stage.activations)[recv.micro_batch()];
    sum = std::max<Nanos>(sum, 0) + time;
  }

  static void Settle(std::vector<Nanos>* sums, Nanos* minimum) {
    for (Nanos& sum : *sums) {
      if (sum != kNone) UpdateMin(sum, minimum);
      sum = kNone;
    }
  }

  const Plan& plan_;
  const CostModel& cost_;
  BackboneTimes times_;
  std::vector<Received> received_;  // by stage, for the current rank
};

}  // namespace

BackboneTimes TimesOfBackbones(const Plan& plan, const CostModel& cost) {
  return TimesCollector(plan, cost).Collect();
}

}  // namespace dpipe

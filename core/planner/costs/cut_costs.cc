#include "core/planner/costs/cut_costs.h"

#include <algorithm>

namespace dpipe {

CutCosts::CutCosts(const CostModel& cost,
                   const std::vector<std::shared_ptr<const BackboneTables>>& tables,
                   const std::vector<StageCostsOptions>& options, const PipelineShape& shape,
                   const PipelineCut& cut, const Schedule& schedule)
    : cost_(cost), shape_(shape), cut_(cut), schedule_(schedule), seats_(SeatsOf(cut)) {
  for (size_t b = 0; b < tables.size(); ++b) {
    costs_.push_back(std::make_unique<ModelStageCosts>(cost, tables[b], schedule, options[b]));
    problems_.push_back(
        MakePartitionProblem(*costs_[b], schedule, static_cast<int>(b), cut.replicas));
  }
}

PassCosts CutCosts::Passes(int backbone, LayerRange layers, int device) const {
  PassCosts passes = PassCostsOf(cost_, cost_.backbones()[backbone], layers, seats_[device],
                                 shape_.micro_batch_size());
  const double forward_passes = 1 + cost_.profile().self_conditioning_probability();
  passes.forward = static_cast<Nanos>(static_cast<double>(passes.forward) * forward_passes);
  return passes;
}

absl::optional<int64_t> CutCosts::FreeBytes(int device, const Stages& stages) const {
  const int64_t limit = costs_[0]->MemoryLimitBytes(seats_[device]);
  if (limit == 0) return absl::nullopt;
  int64_t bytes = limit;
  for (size_t b = 0; b < stages.size(); ++b) {
    bytes -= costs_[b]->MemoryBytes(device, seats_[device], Held(b, device, stages));
  }
  return bytes;
}

int64_t CutCosts::LargestPairBytes(int device, const Stages& stages) const {
  int64_t largest = 1;
  for (size_t b = 0; b < stages.size(); ++b) {
    for (const HeldStage& held : Held(b, device, stages)) {
      largest = std::max(largest, costs_[b]->PairBytes(seats_[device], held.layers));
    }
  }
  return largest;
}

std::vector<HeldStage> CutCosts::Held(size_t backbone, int device, const Stages& stages) const {
  std::vector<HeldStage> held;
  const PartitionProblem& problem = problems_[backbone];
  for (int k = 0; k < problem.num_stages(); ++k) {
    for (int copy = 0; copy < problem.num_copies(); ++copy) {
      if (problem.devices_of_stage[k][copy] != device) continue;
      held.push_back({k, copy, stages[backbone][k]});
    }
  }
  return held;
}

int CutCosts::BackboneOf(int stage) const {
  return schedule_.chains()[schedule_.ChainOf(stage)].backbone;
}

LayerRange CutCosts::LayersOf(int stage) const {
  const std::vector<LayerRange>& stages = cut_.stages[BackboneOf(stage)];
  return stages[(stage - schedule_.FirstStageOf(schedule_.ChainOf(stage))) % stages.size()];
}

int64_t CutCosts::PairBytes(int stage) const {
  return costs_[BackboneOf(stage)]->PairBytes(seats_[schedule_.DeviceOf(stage)], LayersOf(stage));
}

std::vector<Nanos> CutCosts::Delays(bool gradients) const {
  std::vector<Nanos> delays(schedule_.num_stages(), 0);
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const int other = gradients ? schedule_.Previous(s) : schedule_.Next(s);
    if (other < 0 || (gradients && schedule_.IsForwardOnly(other))) continue;
    const int component = cost_.backbones()[BackboneOf(s)];
    const int cut = gradients ? LayersOf(s).begin : LayersOf(s).end;
    if (cut == cost_.num_layers(component)) continue;  // from one lap to the next
    const int64_t bytes = gradients ? cost_.CutGradientBytesPerSample(component, cut)
                                    : cost_.CutBytesPerSample(component, cut);
    delays[s] = costs_[BackboneOf(s)]->TransferNs(bytes, 0, seats_[schedule_.DeviceOf(s)],
                                                  seats_[schedule_.DeviceOf(other)]);
  }
  return delays;
}

std::vector<Nanos> CutCosts::OptimizerTimes() const {
  std::vector<Nanos> times(schedule_.num_devices(), 0);
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    if (schedule_.IsForwardOnly(s)) continue;
    const int device = schedule_.DeviceOf(s), backbone = BackboneOf(s);
    const int shards = costs_[backbone]->StateShards(seats_[device]);
    times[device] +=
        cost_.OnRank(cost_.OptimizerShare(cost_.backbones()[backbone], LayersOf(s), shards),
                     seats_[device].first_rank);
  }
  return times;
}

// Returns the minimum time from a forward pass to the end of the same stage's input gradient, by
// stage.
std::vector<Nanos> CutCosts::Stays() const {
  std::vector<Nanos> stays(schedule_.num_stages(), 0);
  for (int s = schedule_.num_stages() - 1; s >= 0; --s) {
    const PassCosts passes = Passes(BackboneOf(s), LayersOf(s), schedule_.DeviceOf(s));
    const int next = schedule_.Next(s);
    stays[s] = passes.forward + passes.input_grad + (next < 0 ? 0 : stays[next]);
  }
  return stays;
}

// Counts like MemoryBytes: every backbone at its own peak.
int64_t CutCosts::PeakPairBytes(int device) const {
  std::vector<int64_t> kept(cut_.stages.size(), 0), peak = kept;
  for (const Slot& slot : schedule_.slots(device)) {
    if (schedule_.IsForwardOnly(slot.stage) || slot.pass == Pass::kInputGrad) continue;
    const int b = BackboneOf(slot.stage);
    kept[b] += slot.pass == Pass::kForward ? PairBytes(slot.stage) : -PairBytes(slot.stage);
    peak[b] = std::max(peak[b], kept[b]);
  }
  int64_t bytes = 0;
  for (int64_t of_backbone : peak) bytes += of_backbone;
  return bytes;
}

std::vector<int> CutCosts::StageLimits(double spare) const {
  const std::vector<Nanos> stays = Stays();
  std::vector<int> limits(schedule_.num_stages(), 1);
  for (int d = 0; d < schedule_.num_devices(); ++d) {
    const absl::optional<int64_t> free = FreeBytes(d, cut_.stages);
    const double spared = spare * static_cast<double>(costs_[0]->MemoryLimitBytes(seats_[d]));
    ShareRoom(d, free ? *free + PeakPairBytes(d) - static_cast<int64_t>(spared) : INT64_MAX, stays,
              &limits);
  }
  return limits;
}

void CutCosts::ShareRoom(int device, int64_t bytes, const std::vector<Nanos>& stays,
                         std::vector<int>* limits) const {
  std::vector<int> stages;
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    if (schedule_.DeviceOf(s) != device || schedule_.IsForwardOnly(s)) continue;
    stages.push_back(s);
    bytes -= PairBytes(s);
  }
  for (;;) {
    int best = -1;  // the stage with the smallest share of what it could use
    for (int s : stages) {
      const int limit = (*limits)[s];
      if (limit == schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches) continue;
      if (PairBytes(s) > bytes) continue;
      if (best < 0 || static_cast<double>(limit) * static_cast<double>(stays[best]) <
                          static_cast<double>((*limits)[best]) * static_cast<double>(stays[s])) {
        best = s;
      }
    }
    if (best < 0) return;
    bytes -= PairBytes(best);
    ++(*limits)[best];
  }
}

}  // namespace dpipe

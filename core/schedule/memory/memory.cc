#include "core/schedule/memory/memory.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/range.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/lowering/relaxation.h"
#include "core/schedule/memory/frozen_memory.h"
#include "core/schedule/memory/memory_timeline.h"
#include "core/schedule/memory/pass_memory.h"

namespace dpipe {

PlanMemory::PlanMemory(const Plan& plan, const CostModel& cost)
    : plan_(plan), cost_(cost), stages_(plan.devices_size()), weights_(plan) {
  for (const Stage& stage : plan.stages()) {
    for (int rank : stage.ranks()) stages_[rank].push_back(stage.id());
  }
  for (int c = 0; c < plan.chains_size(); ++c) boundaries_.push_back(BoundariesOf(plan, c, cost));
}

int64_t PlanMemory::ReductionBufferBytes(int rank) const {
  std::map<int, int64_t> max_bytes;  // of a reduction, by stage
  for (const Instruction& instruction : plan_.devices(rank).instructions()) {
    if (instruction.kind() != Instruction::REDUCE_GRADS &&
        instruction.kind() != Instruction::SYNC_PARAMS) {
      continue;
    }
    int64_t& max = max_bytes[instruction.stage()];
    max = std::max(max, instruction.bytes());
  }
  int64_t room = 0;
  for (const auto& [stage, bytes] : max_bytes) {
    const bool scatters = plan_.stages(stage).sharded();
    room =
        std::max(room, cost_.ReductionBufferBytes(weights_.GroupOf(stage).ranks, scatters, bytes));
  }
  return room;
}

RankMemory PlanMemory::OfRank(int rank) const {
  MemoryTimeline timeline(plan_.devices(rank).instructions_size());
  const PassMemory passes(plan_, rank, stages_[rank], boundaries_, cost_);
  const FrozenMemory frozen(plan_, rank, stages_[rank], passes.passes(), cost_);
  passes.AddTo(&timeline);
  frozen.AddTo(&timeline);
  RankMemory memory;
  memory.state_bytes = frozen.WeightBytes() + ReductionBufferBytes(rank);
  for (int s : stages_[rank]) {
    const Stage& stage = plan_.stages(s);
    if (stage.forward_only()) continue;
    const int64_t shards = stage.sharded() ? stage.ranks_size() * cost_.num_groups() : 1;
    memory.state_bytes += cost_.ShardedStateBytes(stage.component(), LayersIn(stage), shards,
                                                  stage.keeps_frozen_weights());
    memory.state_bytes +=
        WeightCopies(plan_, rank) * cost_.ParameterBytes(stage.component(), LayersIn(stage));
  }
  memory.instruction_bytes = timeline.Held(memory.state_bytes);
  memory.peak_bytes = memory.state_bytes;
  for (size_t i = 0; i < memory.instruction_bytes.size(); ++i) {
    if (memory.instruction_bytes[i] <= memory.peak_bytes) continue;
    memory.peak_bytes = memory.instruction_bytes[i];
    memory.peak_instruction = static_cast<int>(i);
  }
  return memory;
}

RankMemory MemoryOfRank(const Plan& plan, int rank, const CostModel& cost) {
  return PlanMemory(plan, cost).OfRank(rank);
}

bool FrozenWorkExceedsMemory(const Plan& plan, const CostModel& cost) {
  if (cost.frozen_components().empty() || plan.cached_frozen_outputs()) return false;
  bool exceeds = false;
  const PlanMemory memory(plan, cost);
  for (int r = 0; r < plan.devices_size(); ++r) {
    const int64_t limit = cost.MemoryLimitOf(r);
    if (limit == 0) continue;
    const RankMemory of_rank = memory.OfRank(r);
    if (of_rank.peak_bytes <= limit) continue;
    const Instruction& peak = plan.devices(r).instructions(of_rank.peak_instruction);
    const bool is_frozen =
        peak.kind() == Instruction::FROZEN_FORWARD ||
        (peak.kind() == Instruction::LOAD_BATCH && !cost.IsBackbone(peak.component()));
    if (!is_frozen) return false;
    exceeds = true;
  }
  return exceeds;
}

int LargestFrozenBatch(const Plan& plan) {
  int largest = 0;
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& instruction : program.instructions()) {
      if (instruction.kind() != Instruction::FROZEN_FORWARD) continue;
      largest = std::max(largest, SamplesIn(instruction).size());
    }
  }
  return largest;
}

absl::Status CheckMemory(const Plan& plan, const CostModel& cost) {
  const PlanMemory plan_memory(plan, cost);
  for (int r = 0; r < plan.devices_size(); ++r) {
    const int64_t limit = cost.MemoryLimitOf(r);
    if (limit == 0) continue;
    const RankMemory memory = plan_memory.OfRank(r);
    if (memory.peak_bytes <= limit) continue;
    const Instruction& at = plan.devices(r).instructions(memory.peak_instruction);
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", r, ", instruction ", memory.peak_instruction, " (",
                     Instruction::Kind_Name(at.kind()), "): peak ", FormatBytes(memory.peak_bytes),
                     " exceeds the limit of ", FormatBytes(limit)));
  }
  return absl::OkStatus();
}

}  // namespace dpipe

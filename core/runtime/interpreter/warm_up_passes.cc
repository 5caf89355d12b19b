// The passes that a rank runs once before its first message: each pass of its lists, once.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {

absl::Status RankExecutor::WarmUpPasses() {
  std::set<WarmUpPass> passes;
  const int num_plans = static_cast<int>(lists_.size());
  const int num_models = static_cast<int>(resources_.models.size());
  for (current_plan_ = 0; current_plan_ < num_plans; ++current_plan_) {
    for (current_model_ = 0; current_model_ < num_models; ++current_model_) {
      AddStagePasses(&passes);
      AddFrozenPasses(&passes);
    }
  }
  current_plan_ = current_model_ = 0;
  for (const WarmUpPass& pass : passes) {
    const absl::Status status = WarmUp(pass, resources_.device, resources_.compute_dtype);
    if (status.ok()) continue;
    return absl::Status(
        status.code(), absl::StrCat("rank ", rank_.value(), ", before its first step: ",
                                    pass.program->name(), ", layers ", pass.layers.ToString(), ", ",
                                    pass.samples, " samples: ", status.message()));
  }
  return absl::OkStatus();
}

// Adds those of the current plan and model. A forward pass of a stage that recomputes runs block by
// block.
void RankExecutor::AddStagePasses(std::set<WarmUpPass>* passes) const {
  const DeviceProgram& list = *lists_[current_plan_].program;
  std::set<std::pair<int, Instruction::Kind>> kinds;
  for (const Instruction& instruction : list.instructions()) {
    kinds.emplace(instruction.stage(), instruction.kind());
  }
  for (const Instruction& instruction : list.instructions()) {
    const bool again = instruction.kind() == Instruction::RECOMPUTE;
    if (instruction.kind() != Instruction::FORWARD && !again) continue;
    const int s = instruction.stage();
    const StageRoutes& stage = routes(s);
    WarmUpPass pass;
    pass.program = &program(s);
    pass.layers = LayersIn(instruction, stage.layers);
    pass.samples = SamplesIn(instruction).size();
    pass.parameters = now().stage_parameters[s];
    pass.on_demand = stage.sharded;
    if (!stage.blocks.empty() && !again) {
      const LayerRange layers = pass.layers;
      for (const RecomputedBlock& block : stage.blocks) {
        pass.layers = block.layers.Intersect(layers);
        if (!pass.layers.empty()) passes->insert(pass);
      }
      continue;
    }
    if (stage.forward_only) {
      passes->insert(pass);
      continue;
    }
    pass.back = WarmUpPass::Back::kWhole;
    if (kinds.count({s, Instruction::BACKWARD}) > 0) passes->insert(pass);
    pass.back = WarmUpPass::Back::kSplit;
    if (kinds.count({s, Instruction::INPUT_GRAD}) > 0) passes->insert(pass);
  }
}

void RankExecutor::AddFrozenPasses(std::set<WarmUpPass>* passes) const {
  for (const Instruction& instruction : lists_[current_plan_].program->instructions()) {
    if (instruction.kind() != Instruction::FROZEN_FORWARD) continue;
    WarmUpPass pass;
    pass.program = &component(instruction.component()).program;
    pass.layers = LayersIn(instruction);
    pass.frozen = resources_.frozen_parameters[instruction.component()];
    const SampleRange samples = SamplesIn(instruction);
    for (int begin = samples.begin; begin < samples.end; begin += frozen_.quantum()) {
      pass.samples = frozen_.QuantumAt(begin, samples).size();
      passes->insert(pass);
    }
  }
}

}  // namespace dpipe

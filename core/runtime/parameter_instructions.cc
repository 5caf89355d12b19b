// Collectives on parameters and gradients: all-reduces, and the gathering, releasing and reducing
// of what is divided over the ranks of a stage.
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/runtime/rank_executor.h"

namespace dpipe {
namespace {

LayerRange LayersOf(const Instruction& instruction) {
  return {instruction.layers().begin(), instruction.layers().end()};
}

// Gradients of a stage's layers are summed over all ranks that hold these layers with a gradient.
std::vector<Rank> ReductionGroup(const Plan& plan, const Instruction& instruction) {
  std::set<int> ranks;
  const Stage& own = plan.stages(instruction.stage());
  for (const Stage& stage : plan.stages()) {
    if (stage.forward_only() || stage.component() != own.component()) continue;
    const LayerRange layers{stage.layers().begin(), stage.layers().end()};
    if (layers.Contains(LayersOf(instruction))) {
      ranks.insert(stage.ranks().begin(), stage.ranks().end());
    }
  }
  std::vector<Rank> group;
  for (int rank : ranks) group.push_back(Rank(rank));
  return group;
}

}  // namespace

void RankExecutor::PrepareCollective(const Instruction& instruction, Prepared* prepared) const {
  const bool gathers = instruction.kind() == Instruction::GATHER_PARAMS;
  prepared->group = ReductionGroup(plan(), instruction);
  nn::ParameterSet* shards = now().stage_shards[instruction.stage()];
  nn::ParameterSet* held = shards != nullptr ? shards : now().stage_parameters[instruction.stage()];
  const auto [begin, end] = program(instruction.stage()).ParameterRange(LayersOf(instruction));
  for (nn::ParameterId id : gathers ? held->ids() : held->trainable_ids()) {
    if (id.value() < begin || end <= id.value()) continue;
    prepared->parameters.push_back(id);
    prepared->tensors.push_back(gathers ? held->weight(id).master() : *held->grad(id));
  }
}

absl::Status RankExecutor::CheckGathered(int stage, LayerRange layers) const {
  if (!routes(stage).sharded || now().stage_parameters[stage]->HasMasters(layers)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the parameters of stage ", stage, ", layers ",
                                                    layers.ToString(), " are not gathered"));
}

absl::Status RankExecutor::GatherParams(const Instruction& instruction) {
  if (!routes(instruction.stage()).sharded) {
    return absl::FailedPreconditionError("its parameters are not divided over ranks");
  }
  nn::ParameterSet* parameters = now().stage_parameters[instruction.stage()];
  parameters->AllocateMasters(LayersOf(instruction));
  const Prepared& prepared = prepared_now();
  std::vector<Tensor> full;
  for (nn::ParameterId id : prepared.parameters) {
    full.push_back(parameters->weight(id).master());
    parameters->mutable_weight(id)->MarkUpdated();
  }
  return resources_.communicator->AllGather(prepared.group, prepared.tensors, absl::MakeSpan(full),
                                            prepared.name);
}

absl::Status RankExecutor::ReleaseParams(const Instruction& instruction) {
  DPIPE_RETURN_IF_ERROR(CheckGathered(instruction.stage(), LayersOf(instruction)));
  if (routes(instruction.stage()).sharded) {
    now().stage_parameters[instruction.stage()]->ReleaseMasters(LayersOf(instruction));
  }
  return absl::OkStatus();
}

// Of a sharded stage, each rank gets its shard of the sum, added to what it has of earlier
// micro-batches, and the whole gradients go.
absl::Status RankExecutor::ReduceGrads(const Instruction& instruction) {
  Prepared& prepared = prepared_now();
  if (!routes(instruction.stage()).sharded) {
    return resources_.communicator->AllReduceSum(prepared.group, absl::MakeSpan(prepared.tensors),
                                                 prepared.name);
  }
  nn::ParameterSet* parameters = now().stage_parameters[instruction.stage()];
  if (!parameters->HasGrads(LayersOf(instruction))) {
    return absl::FailedPreconditionError("there are no gradients to reduce");
  }
  std::vector<Tensor> full;
  for (nn::ParameterId id : prepared.parameters) full.push_back(*parameters->grad(id));
  DPIPE_RETURN_IF_ERROR(resources_.communicator->ReduceScatterSum(
      prepared.group, full, absl::MakeSpan(prepared.tensors), prepared.name));
  full.clear();
  parameters->ReleaseGrads(LayersOf(instruction));
  return absl::OkStatus();
}

}  // namespace dpipe

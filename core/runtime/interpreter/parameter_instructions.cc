// Collectives on parameters and gradients: all-reduces, and the gathering, releasing and reducing
// of parameters that are sharded over the ranks of a stage.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {
namespace {

// Maximum elements that are summed as one tensor, 64 MB: communicators allocate workspace per
// tensor.
constexpr int64_t kMaxInRow = int64_t{16} << 20;

}  // namespace

std::vector<Rank> RankExecutor::ReductionGroup(const Instruction& instruction) const {
  std::set<int> ranks;
  const Stage& own = plan().stages(instruction.stage());
  for (const Stage& stage : plan().stages()) {
    if (stage.forward_only() || stage.component() != own.component()) continue;
    const LayerRange layers = LayersIn(stage);
    if (layers.Contains(LayersIn(instruction))) {
      ranks.insert(stage.ranks().begin(), stage.ranks().end());
    }
  }
  std::vector<Rank> group;
  for (int rank : ranks) group.push_back(Rank(rank));
  return group;
}

void RankExecutor::PrepareCollective(const Instruction& instruction, Prepared* prepared) const {
  const bool gathers = instruction.kind() == Instruction::GATHER_PARAMS;
  prepared->group = ReductionGroup(instruction);
  nn::ParameterSet* shards = now().stage_shards[instruction.stage()];
  nn::ParameterSet* held = shards != nullptr ? shards : now().stage_parameters[instruction.stage()];
  const auto [begin, end] = program(instruction.stage()).ParameterRange(LayersIn(instruction));
  for (nn::ParameterId id : gathers ? held->ids() : held->trainable_ids()) {
    if (id.value() < begin || end <= id.value()) continue;
    prepared->parameters.push_back(id);
    prepared->tensors.push_back(gathers ? held->weight(id).master() : *held->grad(id));
  }
  if (gathers || shards != nullptr) return;
  const Tensor row = held->GradRow(LayersIn(instruction));
  const int64_t size = row.defined() ? row.num_elements() : 0;
  for (int64_t at = 0; at < size; at += kMaxInRow) {
    prepared->rows.push_back(row.Slice(at, std::min(at + kMaxInRow, size)));
  }
}

void RankExecutor::Started(const Instruction& instruction, int64_t step,
                           std::unique_ptr<PendingCollective> pending) {
  collectives_.push_back({current_instruction_, step, start_ns_, start_event_,
                          instruction.kind() == Instruction::GATHER_PARAMS,
                          routes(instruction.stage()).component, LayersIn(instruction),
                          std::move(pending)});
}

// Collectives run one after another, so each begins when the previous one has ended.
absl::Status RankExecutor::AwaitCollectives(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Collective& collective = collectives_[i];
    DPIPE_RETURN_IF_ERROR(collective.pending->Wait());
    if (!record_) continue;  // reading the end time may have to wait for the device
    if (const std::shared_ptr<DeviceEvent> end = collective.pending->end();
        end != nullptr && collective.start != nullptr) {
      AddEvent(collective.instruction, collective.step, TraceEvent::COLLECTIVE, 0, 0);
      collective_times_.push_back({events_.size() - 1, collective.start, end});
      continue;
    }
    const Nanos start_ns = std::max(collective.start_ns, collectives_end_ns_);
    collectives_end_ns_ = std::max(start_ns, collective.pending->end_ns());
    AddEvent(collective.instruction, collective.step, TraceEvent::COLLECTIVE, start_ns,
             collectives_end_ns_);
  }
  collectives_.erase(collectives_.begin(), collectives_.begin() + count);
  return absl::OkStatus();
}

absl::Status RankExecutor::AwaitGathered(int stage, LayerRange layers) {
  if (!routes(stage).sharded) return absl::OkStatus();
  for (size_t i = collectives_.size(); i > 0; --i) {
    const Collective& collective = collectives_[i - 1];
    if (!collective.gathers || collective.component != routes(stage).component ||
        collective.layers.Intersect(layers).empty()) {
      continue;
    }
    DPIPE_RETURN_IF_ERROR(AwaitCollectives(i));
    break;
  }
  if (now().stage_parameters[stage]->HasMasters(layers)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the parameters of stage ", stage, ", layers ",
                                                    layers.ToString(), " are not gathered"));
}

absl::Status RankExecutor::GatherParams(const Instruction& instruction, int64_t step) {
  if (!routes(instruction.stage()).sharded) {
    return absl::FailedPreconditionError("its parameters are not sharded");
  }
  nn::ParameterSet* parameters = now().stage_parameters[instruction.stage()];
  parameters->AllocateMasters(LayersIn(instruction));
  const Prepared& prepared = prepared_now();
  std::vector<Tensor> full;
  for (nn::ParameterId id : prepared.parameters) {
    full.push_back(parameters->weight(id).master());
    parameters->mutable_weight(id)->MarkUpdated();
  }
  DPIPE_ASSIGN_OR_RETURN(
      auto pending, resources_.communicator->StartAllGather(prepared.group, prepared.tensors,
                                                            std::move(full), prepared.awaited));
  Started(instruction, step, std::move(pending));
  return absl::OkStatus();
}

absl::Status RankExecutor::ReleaseParams(const Instruction& instruction) {
  DPIPE_RETURN_IF_ERROR(AwaitGathered(instruction.stage(), LayersIn(instruction)));
  if (routes(instruction.stage()).sharded) {
    now().stage_parameters[instruction.stage()]->ReleaseMasters(LayersIn(instruction));
  }
  return absl::OkStatus();
}

// Starts a reduction. For a sharded stage, each rank gets its shard of the sum, added to that of
// earlier micro-batches. The whole gradients are freed at the end of the collective. Earlier
// reductions end first, so that the gradients of at most one bucket stay longer than the plan's
// memory estimate assumes.
absl::Status RankExecutor::ReduceGrads(const Instruction& instruction, int64_t step) {
  const Prepared& prepared = prepared_now();
  Communicator& communicator = *resources_.communicator;
  if (!routes(instruction.stage()).sharded) {
    DPIPE_ASSIGN_OR_RETURN(
        auto pending,
        reducer_ != nullptr
            ? reducer_->Start(prepared.group, prepared.tensors, prepared.awaited)
            : communicator.StartAllReduceSum(prepared.group, prepared.rows, prepared.awaited));
    Started(instruction, step, std::move(pending));
    return absl::OkStatus();
  }
  nn::ParameterSet* parameters = now().stage_parameters[instruction.stage()];
  if (!parameters->HasGrads(LayersIn(instruction))) {
    return absl::FailedPreconditionError("there are no gradients to reduce");
  }
  const auto last_reduction =
      std::find_if(collectives_.rbegin(), collectives_.rend(),
                   [](const Collective& collective) { return !collective.gathers; });
  DPIPE_RETURN_IF_ERROR(AwaitCollectives(collectives_.rend() - last_reduction));
  MarkStart();
  std::vector<Tensor> full;
  for (nn::ParameterId id : prepared.parameters) full.push_back(*parameters->grad(id));
  parameters->ReleaseGrads(LayersIn(instruction));
  DPIPE_ASSIGN_OR_RETURN(auto pending,
                         communicator.StartReduceScatterSum(prepared.group, std::move(full),
                                                            prepared.tensors, prepared.awaited));
  Started(instruction, step, std::move(pending));
  return absl::OkStatus();
}

// Averages the changes of the weights. No rank continues before all have arrived: a clock distance
// of 0, in HetPipe's terms.
absl::Status RankExecutor::SyncParams(const Instruction& instruction) {
  if (!plan().has_relaxation()) return absl::FailedPreconditionError("the plan is not relaxed");
  const Prepared& prepared = prepared_now();
  return versions_[instruction.stage()]->Share(
      static_cast<int>(prepared.group.size()), [&](absl::Span<Tensor> changes) {
        return resources_.communicator->AllReduceSum(prepared.group, changes, prepared.awaited);
      });
}

}  // namespace dpipe

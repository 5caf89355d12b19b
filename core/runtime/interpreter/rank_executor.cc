#include "core/runtime/interpreter/rank_executor.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/instruction_name.h"

namespace dpipe {

namespace {

// Returns the plan's quantum. Cached outputs are loaded for the samples that a rank needs, so their
// quantum is one sample.
int QuantumOf(const Plan& plan) {
  return plan.cached_frozen_outputs() ? 1 : std::max(1, plan.frozen_quantum());
}

// Returns the first instruction of a part of the list at or after `i`, or the list's size.
int NextOf(const DeviceProgram& program, RankExecutor::Part part, int i) {
  const auto runs = [part](const Instruction& instruction) {
    const bool ahead = instruction.step_offset() > 0;
    return part == RankExecutor::Part::kWholeStep ||
           ahead == (part == RankExecutor::Part::kPrologue);
  };
  while (i < program.instructions_size() && !runs(program.instructions(i))) ++i;
  return i;
}

}  // namespace

RankExecutor::RankExecutor(RankResources resources)
    : resources_(std::move(resources)),
      rank_(resources_.communicator->rank()),
      frozen_(QuantumOf(*resources_.plans[0].plan)) {
  lists_.resize(resources_.plans.size());
  for (current_plan_ = 0; current_plan_ < static_cast<int>(lists_.size()); ++current_plan_) {
    List& list = lists_[current_plan_];
    for (const DeviceProgram& program : plan().devices()) {
      if (Rank(program.rank()) == rank_) list.program = &program;
    }
    DPIPE_CHECK(list.program != nullptr) << "the plan has no rank " << rank_;
    for (const Instruction& instruction : list.program->instructions()) {
      Prepared prepared = Prepare(instruction);
      prepared.awaited = AwaitedName(plan(), instruction, static_cast<int>(list.prepared.size()));
      list.prepared.push_back(std::move(prepared));
    }
  }
  current_plan_ = 0;
  std::set<const nn::ParameterSet*> seen;
  for (size_t s = 0; s < now().stage_parameters.size(); ++s) {
    nn::ParameterSet* parameters =
        now().stage_shards[s] != nullptr ? now().stage_shards[s] : now().stage_parameters[s];
    if (parameters == nullptr || !seen.insert(parameters).second) continue;
    optimizers_.emplace_back(parameters, resources_.optimizer(*parameters));
  }
  if (resources_.reducer) reducer_ = resources_.reducer(resources_.communicator);
  if (plan().has_relaxation()) {
    for (nn::ParameterSet* weights : now().stage_parameters) {
      const bool shares = plan().relaxation().updates_per_sync() > 0;
      versions_.push_back(weights == nullptr ? nullptr
                                             : std::make_unique<WeightVersions>(weights, shares));
    }
  }
  PrepareNorm();
  if (resources_.ahead != nullptr) {
    prefetcher_ = std::make_unique<InputPrefetcher>(resources_.inputs, resources_.ahead);
  }
  if (resources_.graphs.enabled && resources_.device->graphs() != nullptr) {
    graphs_ = std::make_unique<PassGraphs>(resources_.device, resources_.graphs);
  }
}

absl::Status RankExecutor::Begin() {
  if (resources_.communicator->occupies_device()) DPIPE_RETURN_IF_ERROR(WarmUpPasses());
  return ExpectMessages();
}

absl::Status RankExecutor::ExpectMessages() {
  std::set<Rank> to, from;
  for (const List& list : lists_) {
    for (const Instruction& instruction : list.program->instructions()) {
      if (!IsMessage(instruction)) continue;
      (instruction.kind() == Instruction::SEND ? to : from).insert(Rank(instruction.peer()));
    }
  }
  return resources_.communicator->ExpectMessages(std::vector<Rank>(to.begin(), to.end()),
                                                 std::vector<Rank>(from.begin(), from.end()));
}

absl::Status RankExecutor::RunStep(int64_t step, Part part, bool record, int plan) {
  if (!std::exchange(begun_, true)) DPIPE_RETURN_IF_ERROR(Begin());
  record_ = record;
  current_plan_ = plan;
  for (const auto& versions : versions_) {
    if (versions != nullptr && part != Part::kPrologue) versions->BeginStep();
  }
  const DeviceProgram& program = *lists_[plan].program;
  int next = NextOf(program, part, 0);
  bool in_messages = false;
  while (next < program.instructions_size()) {
    const int i = std::exchange(next, NextOf(program, part, next + 1));
    const Instruction& instruction = program.instructions(i);
    // Maximal runs of messages go together, as in VerifyPlan.
    if (IsMessage(instruction) && !std::exchange(in_messages, true)) {
      resources_.communicator->BeginMessages();
    }
    current_instruction_ = i;
    const int64_t serves = step + instruction.step_offset();
    current_model_ = resources_.model_of ? resources_.model_of(serves) : 0;
    DPIPE_CHECK_LT(current_model_, static_cast<int>(resources_.models.size()))
        << "the model of step " << serves;
    resources_.clock->Reach(this->plan(), i, step);
    MarkStart();
    absl::Status status = Run(instruction, serves);
    const bool message_follows =
        next < program.instructions_size() && IsMessage(program.instructions(next));
    if (status.ok() && !message_follows && std::exchange(in_messages, false)) {
      status = resources_.communicator->EndMessages();
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("rank ", rank_.value(), ", step ", step, ", instruction ", i,
                                       " (", prepared_now().name, "): ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::Run(const Instruction& instruction, int64_t step) {
  switch (instruction.kind()) {
    case Instruction::LOAD_BATCH:
      DPIPE_RETURN_IF_ERROR(LoadBatch(instruction, step));
      break;
    case Instruction::FROZEN_FORWARD:
      DPIPE_RETURN_IF_ERROR(FrozenForward(instruction, step));
      break;
    case Instruction::FORWARD:
      DPIPE_RETURN_IF_ERROR(Forward(instruction, step));
      break;
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      DPIPE_RETURN_IF_ERROR(BackwardPass(instruction));
      break;
    case Instruction::RECOMPUTE:
      DPIPE_RETURN_IF_ERROR(Recompute(instruction, step));
      break;
    case Instruction::SEND:
      DPIPE_RETURN_IF_ERROR(Send(instruction, step));
      Record(step - instruction.step_offset(), TraceEvent::SEND_STREAM);
      return absl::OkStatus();
    case Instruction::RECV:
      return PostRecv(instruction, step);
    case Instruction::GATHER_PARAMS:
      return GatherParams(instruction, step);
    case Instruction::RELEASE_PARAMS:
      return ReleaseParams(instruction);
    case Instruction::REDUCE_GRADS:
      return ReduceGrads(instruction, step);
    case Instruction::SYNC_PARAMS:
      DPIPE_RETURN_IF_ERROR(SyncParams(instruction));
      Record(step, TraceEvent::COLLECTIVE);
      return absl::OkStatus();
    case Instruction::FLUSH:
      DPIPE_RETURN_IF_ERROR(Flush(step));
      break;
    case Instruction::OPTIMIZER_STEP:
      DPIPE_RETURN_IF_ERROR(OptimizerStep(instruction, step));
      break;
    default:
      return absl::UnimplementedError(absl::StrCat("this runtime does not execute ",
                                                   Instruction::Kind_Name(instruction.kind())));
  }
  resources_.clock->FinishComputation(start_ns_);
  Record(step - instruction.step_offset(), TraceEvent::COMPUTE);
  return absl::OkStatus();
}

void RankExecutor::Record(int64_t step, TraceEvent::Stream stream) {
  AddEvent(current_instruction_, step, stream, start_ns_, resources_.clock->Now());
  if (start_event_ != nullptr) {
    device_times_.push_back({events_.size() - 1, start_event_, resources_.device->RecordEvent()});
  }
  RecordMemory();
}

void RankExecutor::AddEvent(int instruction, int64_t step, TraceEvent::Stream stream,
                            Nanos start_ns, Nanos end_ns) {
  if (!record_) return;
  TraceEvent event;
  event.set_rank(rank_.value());
  event.set_stream(stream);
  event.set_step(static_cast<int32_t>(step));
  event.set_instruction(instruction);
  event.set_start_ns(start_ns - resources_.epoch_ns);
  event.set_end_ns(end_ns - resources_.epoch_ns);
  events_.push_back(std::move(event));
}

void RankExecutor::MarkStart() {
  start_ns_ = resources_.clock->Now();
  start_event_ = DeviceNow();
}

std::shared_ptr<DeviceEvent> RankExecutor::DeviceNow() const {
  const bool on_device = record_ && !resources_.device->has_host_memory();
  return on_device ? resources_.device->RecordEvent() : nullptr;
}

void RankExecutor::RecordMemory() {
  if (!record_) return;
  int64_t bytes = 0;
  for (Device* device : std::set<Device*>{resources_.device.get(), resources_.loader.get(),
                                          resources_.ahead.get()}) {
    if (device != nullptr) bytes += device->allocator().stats().allocated_bytes;
  }
  if (!event_memory_.empty() && event_memory_.back().bytes == bytes) return;
  event_memory_.push_back({events_.size() - 1, bytes});
}

// The clocks of device and host drift apart by some microseconds per second, and two events' times
// may be based on different comparisons of these clocks. Hence the clamping.
std::vector<TraceEvent> RankExecutor::TakeEvents() {
  const auto set = [this](const DeviceTimes& times, Nanos not_before) {
    const Nanos begin_ns = std::max(times.begin->time_ns(), not_before);
    const Nanos end_ns = std::max(times.end->time_ns(), begin_ns);
    events_[times.event].set_start_ns(begin_ns - resources_.epoch_ns);
    events_[times.event].set_end_ns(end_ns - resources_.epoch_ns);
    return end_ns;
  };
  for (const DeviceTimes& times : device_times_) set(times, std::numeric_limits<Nanos>::min());
  for (const DeviceTimes& times : collective_times_) {
    collectives_end_ns_ = set(times, collectives_end_ns_);
  }
  device_times_.clear();
  collective_times_.clear();
  for (const EventMemory& at : event_memory_) {
    MemorySample& sample = memory_.emplace_back();
    sample.set_rank(rank_.value());
    sample.set_time_ns(events_[at.event].end_ns());
    sample.set_bytes(at.bytes);
  }
  event_memory_.clear();
  return std::exchange(events_, {});
}

std::vector<StepLosses> RankExecutor::TakeLosses() {
  FetchLosses();
  return std::exchange(losses_, {});
}

}  // namespace dpipe

#include "core/runtime/session/local_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/phases.h"
#include "core/base/shard.h"
#include "core/comm/in_process.h"
#include "core/nn/parameters.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/session/executed_trace.h"
#include "core/runtime/session/session_checks.h"
#include "core/runtime/session/session_processes.h"
#include "core/runtime/session/step_clock.h"

namespace dpipe {

namespace {

// Spins for a share of the time since `begin_ns` and returns the end time. Sleeping would take
// longer.
Nanos WaitFor(double share, Nanos begin_ns) {
  const Nanos now = MonotonicNow();
  const Nanos end = now + static_cast<Nanos>(share * static_cast<double>(now - begin_ns));
  while (MonotonicNow() < end) continue;
  return end;
}

bool LooksAhead(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& instruction : program.instructions()) {
      if (instruction.step_offset() > 0) return true;
    }
  }
  return false;
}

// Ranks exchange shards in fp32.
absl::Status CheckShardable(const nn::Program& program, const Stage& stage) {
  const auto [begin, end] = program.ParameterRange(LayersIn(stage));
  for (int i = begin; i < end; ++i) {
    const nn::ParameterInfo& parameter = program.parameter(nn::ParameterId(i));
    if (stage.keeps_frozen_weights() && !parameter.trainable) continue;
    if (parameter.storage == ops::WeightStorage::kFp32) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan divides the weights of ", program.name(), " among ranks, but '", parameter.name,
        "' is kept in ", ops::WeightStorageName(parameter.storage),
        "; keep frozen weights in fp32, or use a strategy that does not divide frozen weights"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalSession>> LocalSession::Create(LocalSessionOptions options) {
  DPIPE_RETURN_IF_ERROR(CheckSessionOptions(options));
  auto communicators = std::exchange(options.communicators, {});
  auto session = std::unique_ptr<LocalSession>(new LocalSession(std::move(options)));
  const absl::Status status = session->SetUp(std::move(communicators));
  if (status.ok()) return session;
  session->failed_ = true;
  if (session->processes_ != nullptr) session->processes_->Fail(status);
  return status;
}

LocalSession::LocalSession(LocalSessionOptions options) : options_(std::move(options)) {}

absl::Status LocalSession::SetUp(std::vector<std::unique_ptr<Communicator>> communicators) {
  for (int i = 0; i < num_plans(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(routes_.emplace_back(), RouteStages(plan(i), *options_.model));
    looks_ahead_.push_back(LooksAhead(plan(i)));
  }
  next_step_ = options_.first_step;
  epoch_ns_ = options_.clock->rank(0)->Now();
  for (size_t i = 0; i < options_.workers.size(); ++i) {
    ranks_.push_back(std::make_unique<RankState>());
    ranks_.back()->rank = Rank(static_cast<int>(i));
  }
  RunOnAll(options_.workers, [&](int local) {
    RankState& state = *ranks_[local];
    state.device = options_.workers[local]->device()->MakeSibling();
    // If the host cannot write to the device, copies to it would queue up behind its work.
    state.loader = state.device->has_host_memory() ? state.device : state.device->MakeSibling();
    if (!state.device->has_host_memory()) state.ahead = state.device->MakeSibling();
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(Connect(std::move(communicators)));
  std::vector<RankResources> resources(options_.workers.size());
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(options_.workers, [&](int local) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(resources[local], SetUpParameters(local));
    return absl::OkStatus();
  })));
  if (options_.on_parameters_copied) options_.on_parameters_copied();
  return FirstError(RunOnAll(
      options_.workers, [&](int local) { return SetUpRank(local, std::move(resources[local])); }));
}

std::vector<Device*> LocalSession::RankState::devices() const {
  if (loader == device) return {device.get()};
  return {device.get(), loader.get(), ahead.get()};
}

int64_t LocalSession::RankState::peak_bytes() const {
  int64_t peak = 0;
  for (Device* one : devices()) peak += one->allocator().stats().peak_bytes;
  return peak;
}

LocalSession::~LocalSession() {
  if (processes_ == nullptr) return;
  SessionCommand command;
  command.set_end(true);
  if (processes_->is_leader() && !failed_) processes_->Tell(command).IgnoreError();
  if (!processes_->is_leader() && !ended_) {
    processes_->Fail(
        absl::AbortedError(absl::StrCat(processes_->name(), " left the session early")));
  }
  // Each waits for all others to finish.
  RunOnAll(options_.workers, [&](int local) {
    ranks_[local]->executor = nullptr;
    ranks_[local]->communicator = nullptr;
    return absl::OkStatus();
  });
}

// Sessions have their own devices (twins of the workers'), on which the communicators depend.
absl::Status LocalSession::Connect(std::vector<std::unique_ptr<Communicator>> given) {
  if (options_.processes != nullptr) return ConnectProcesses();
  if (given.empty() && options_.connect) {
    std::vector<std::shared_ptr<Device>> devices;
    for (const auto& rank : ranks_) devices.push_back(rank->device);
    DPIPE_ASSIGN_OR_RETURN(given, options_.connect(devices, options_.deadline));
  } else if (given.empty()) {
    InProcessOptions in_process;
    in_process.deadline = options_.deadline;
    given = CreateInProcessCommunicators(static_cast<int>(ranks_.size()), in_process);
  }
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i]->communicator = std::move(given[i]);
  return absl::OkStatus();
}

absl::Status LocalSession::ConnectProcesses() {
  processes_ = std::make_unique<SessionProcesses>(options_.processes);
  DPIPE_ASSIGN_OR_RETURN(epoch_ns_, processes_->AgreeOnEpoch(epoch_ns_));
  const std::vector<Rank> numbers = processes_->local_ranks();
  return FirstError(RunOnAll(options_.workers, [&](int local) -> absl::Status {
    RankState& state = *ranks_[local];
    state.rank = numbers[local];
    DPIPE_ASSIGN_OR_RETURN(
        state.communicator,
        processes_->Connect(state.rank, state.device, options_.deadline, options_.connect_in_job));
    return absl::OkStatus();
  }));
}

// Sets up the parameters of a plan's stages on a rank, and creates those not yet there for the
// layers.
absl::Status LocalSession::SetUpStages(int local, ParametersByLayers* by_layers, RankPlan* own) {
  RankState& state = *ranks_[local];
  const int rank = state.rank.value();
  for (const Stage& stage : own->plan->stages()) {
    const auto& ranks = stage.ranks();
    own->stage_parameters.push_back(nullptr);
    own->stage_shards.push_back(nullptr);
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
    const LayerRange layers = LayersIn(stage);
    const nn::Program& program = options_.model->component(stage.component()).program;
    if (stage.sharded()) DPIPE_RETURN_IF_ERROR(CheckShardable(program, stage));
    auto& [parameters, on_demand] = (*by_layers)[{stage.component(), layers}];
    if (parameters == nullptr) {
      if (stage.sharded()) {
        const auto place = std::find(ranks.begin(), ranks.end(), rank);
        const Shard shard{static_cast<int>(place - ranks.begin()), ranks.size()};
        state.parameters.push_back(nn::ParameterSet::OfShards(program, layers, state.device, shard,
                                                              stage.keeps_frozen_weights()));
        state.on_demand.push_back(nn::ParameterSet::OnDemand(program, layers, state.device));
        on_demand = state.on_demand.back().get();
        if (stage.keeps_frozen_weights()) {
          DPIPE_RETURN_IF_ERROR(on_demand->KeepFrozen(*options_.initial_parameters));
        }
      } else {
        state.parameters.push_back(
            std::make_unique<nn::ParameterSet>(program, layers, state.device));
      }
      parameters = state.parameters.back().get();
      DPIPE_RETURN_IF_ERROR(parameters->Load(*options_.initial_parameters));
    }
    own->stage_parameters.back() = stage.sharded() ? on_demand : parameters;
    if (stage.sharded()) own->stage_shards.back() = parameters;
  }
  return absl::OkStatus();
}

// Runs on the rank's own thread, so that its memory is allocated near its cores.
absl::StatusOr<RankResources> LocalSession::SetUpParameters(int local) {
  DPIPE_RETURN_IF_ERROR(LoadFrozenOf(ranks_[local]->rank.value()));
  const Phase phase("read the backbone's weights");
  RankResources resources;
  ParametersByLayers by_layers;
  for (int i = 0; i < num_plans(); ++i) {
    RankPlan& own = resources.plans.emplace_back();
    own.plan = &plan(i);
    own.routes = &routes_[i];
    DPIPE_RETURN_IF_ERROR(SetUpStages(local, &by_layers, &own));
  }
  return resources;
}

LocalSession::FrozenLayers LocalSession::FrozenLayersOf(int rank) const {
  FrozenLayers layers(options_.model->num_components());
  for (int i = 0; i < num_plans(); ++i) {
    for (const Instruction& instruction : plan(i).devices(rank).instructions()) {
      if (instruction.kind() != Instruction::FROZEN_FORWARD) continue;
      std::vector<LayerRange>& own = layers[instruction.component()];
      const LayerRange range = LayersIn(instruction);
      if (std::find(own.begin(), own.end(), range) == own.end()) own.push_back(range);
    }
  }
  return layers;
}

absl::Status LocalSession::LoadFrozenOf(int rank) const {
  if (!options_.load_frozen) return absl::OkStatus();
  const Phase phase("read frozen weights");
  const FrozenLayers layers = FrozenLayersOf(rank);
  for (size_t c = 0; c < layers.size(); ++c) {
    for (const LayerRange& range : layers[c]) {
      DPIPE_RETURN_IF_ERROR(options_.load_frozen(static_cast<int>(c), range));
    }
  }
  return absl::OkStatus();
}

// Returns the given sets, or copies of the layers that the rank runs if the device has its own
// memory.
std::vector<const nn::ParameterSet*> LocalSession::FrozenParametersOf(RankState* state) const {
  if (state->device->has_host_memory()) return options_.frozen_parameters;
  const Phase phase("copy frozen weights to the device");
  const FrozenLayers layers = FrozenLayersOf(state->rank.value());
  std::vector<const nn::ParameterSet*> there(options_.frozen_parameters.size());
  for (size_t i = 0; i < there.size(); ++i) {
    const nn::ParameterSet* const here = options_.frozen_parameters[i];
    if (here == nullptr) continue;
    state->frozen.push_back(nn::CopyParameters(*here, layers[i], state->device));
    there[i] = state->frozen.back().get();
  }
  return there;
}

absl::Status LocalSession::SetUpRank(int local, RankResources resources) {
  RankState& state = *ranks_[local];
  resources.models = {options_.model};
  resources.models.insert(resources.models.end(), options_.sizes.others.begin(),
                          options_.sizes.others.end());
  resources.model_of = options_.sizes.model_of;
  resources.device = state.device;
  resources.loader = state.loader;
  resources.ahead = state.ahead;
  resources.communicator = state.communicator.get();
  resources.clock = options_.clock->rank(state.rank.value());
  resources.inputs = options_.inputs;
  resources.frozen_parameters = FrozenParametersOf(&state);
  resources.optimizer = options_.optimizer;
  resources.reducer = options_.reducer;
  resources.compute_dtype = options_.compute_dtype;
  resources.graphs = options_.graphs;
  resources.epoch_ns = epoch_ns_;
  state.executor = std::make_unique<RankExecutor>(std::move(resources));
  return absl::OkStatus();
}

absl::Status LocalSession::RunRank(int local, int count, bool is_last, bool record,
                                   StepSink* steps) {
  RankExecutor& executor = *ranks_[local]->executor;
  RankClock& clock = *options_.clock->rank(ranks_[local]->rank.value());
  using Part = RankExecutor::Part;
  const auto prologue = [&](int64_t step) {
    return executor.RunStep(step - 1, Part::kPrologue, /*record=*/false, PlanOf(step));
  };
  if (looks_ahead_[PlanOf(next_step_)] && !prepared_next_) {
    DPIPE_RETURN_IF_ERROR(prologue(next_step_));
    // The first step starts when all ranks have finished the prologue.
    double nothing = 0;
    DPIPE_RETURN_IF_ERROR(ranks_[local]->communicator->AllReduceSum(absl::MakeSpan(&nothing, 1),
                                                                    "the end of the prologue"));
    if (local == 0) steps->Restart(clock.Now());
  }
  Nanos begin_ns = MonotonicNow();
  for (int i = 0; i < count; ++i) {
    const int64_t step = next_step_ + i;
    const bool last = is_last && i == count - 1;
    // True if this step's list must prepare the next step, which may run by the other plan.
    const bool ahead = !last && looks_ahead_[PlanOf(step + 1)];
    DPIPE_RETURN_IF_ERROR(
        executor.RunStep(step, ahead ? Part::kWholeStep : Part::kLastStep, record, PlanOf(step)));
    if (ahead && !looks_ahead_[PlanOf(step)]) DPIPE_RETURN_IF_ERROR(prologue(step + 1));
    if (options_.slow_down > 0) begin_ns = WaitFor(options_.slow_down, begin_ns);
    steps->RankDone(step, executor.TakeLosses(), executor.outcome(),
                    {ranks_[local]->rank, ranks_[local]->peak_bytes()}, clock.Now());
    DPIPE_RETURN_IF_ERROR(CountSkipped(local, step));
  }
  return absl::OkStatus();
}

absl::Status LocalSession::CountSkipped(int local, int64_t step) {
  const StepOutcome& outcome = ranks_[local]->executor->outcome();
  int& skipped = ranks_[local]->skipped_in_a_row;
  skipped = outcome.applied ? 0 : skipped + 1;
  if (skipped <= options_.max_skipped_in_a_row) return absl::OkStatus();
  // No rank ends the run before all others have reported this step.
  double nothing = 0;
  DPIPE_RETURN_IF_ERROR(ranks_[local]->communicator->AllReduceSum(absl::MakeSpan(&nothing, 1),
                                                                  "the end of a skipped step"));
  std::string message = absl::StrCat("step ", step + 1, ": the gradients' global norm is ",
                                     outcome.global_norm, " and ", outcome.num_bad_losses, " of ",
                                     options_.plan.global_batch(), " losses are not finite");
  if (options_.max_skipped_in_a_row > 0) {
    absl::StrAppend(&message, "; ", skipped, " such steps in a row exceed the limit of ",
                    options_.max_skipped_in_a_row);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(message, ": the training has diverged; lower the learning rate"));
}

// The first error is the cause; other ranks' errors only say that they were stopped.
absl::Status LocalSession::RunRanks(int count, bool is_last, bool record, StepSink* steps) {
  for (auto& rank : ranks_) {
    for (Device* device : rank->devices()) device->allocator().ResetPeak();
  }
  absl::Mutex mutex;
  absl::Status cause;
  options_.clock->StartRun();
  RunOnAll(options_.workers, [&](int local) {
    const std::string name = absl::StrCat("rank ", ranks_[local]->rank.value());
    options_.clock->BeginRank(ranks_[local]->rank.value());
    absl::Status status;
    try {
      status = RunRank(local, count, is_last, record, steps);
      if (status.ok()) status = ranks_[local]->loader->Synchronize();
      if (status.ok()) status = ranks_[local]->device->Synchronize();
    } catch (const std::exception& e) {
      status = absl::InternalError(absl::StrCat(name, ": exception: ", e.what()));
    } catch (...) {
      status = absl::InternalError(absl::StrCat(name, ": exception of an unknown type"));
    }
    if (!status.ok()) {
      absl::MutexLock lock(&mutex);
      if (cause.ok()) cause = status;
      ranks_[local]->communicator->Abort(status);
    }
    options_.clock->EndRank(ranks_[local]->rank.value());
    return status;
  });
  if (!cause.ok()) {
    failed_ = true;
    return cause;
  }
  next_step_ += count;
  prepared_next_ = !is_last && looks_ahead_[PlanOf(next_step_)];
  return absl::OkStatus();
}

ProcessRun LocalSession::TakeReport(int64_t first_step) {
  ProcessRun report;
  for (auto& rank : ranks_) {
    for (TraceEvent& event : rank->executor->TakeEvents()) {
      event.set_step(event.step() - static_cast<int32_t>(first_step));
      *report.add_events() = std::move(event);
    }
    for (MemorySample& sample : rank->executor->TakeMemory()) {
      *report.add_memory() = std::move(sample);
    }
    report.add_peak_memory_bytes(rank->peak_bytes());
  }
  return report;
}

absl::StatusOr<RunResult> LocalSession::Run(int count, bool is_last, bool record,
                                            const std::function<void(const StepResult&)>& on_step) {
  if (failed_) return absl::FailedPreconditionError("this session ended with an error");
  if (record && num_plans() > 1) {
    return absl::FailedPreconditionError(
        "a session of two plans records no trace; record each plan in a session of its own");
  }
  StepClock clock(next_step_, count, options_.plan.num_devices(),
                  static_cast<int>(options_.model->backbones().size()),
                  options_.plan.global_batch(), options_.clock->rank(0)->Now(), on_step);
  const int64_t first_step = next_step_;
  absl::Status status;
  if (processes_ != nullptr) {
    SessionCommand command;
    command.mutable_run()->set_count(count);
    command.mutable_run()->set_is_last(is_last);
    command.mutable_run()->set_record(record);
    processes_->OnSteps(&clock);
    status = processes_->Tell(command);
  }
  if (status.ok()) status = RunRanks(count, is_last, record, &clock);
  ProcessRun report = TakeReport(first_step);
  if (processes_ != nullptr) {
    if (status.ok()) status = ReceiveRuns(&report);
    processes_->OnSteps(nullptr);
  }
  if (!status.ok()) {
    failed_ = true;
    return status;
  }
  RunResult result;
  result.steps = clock.results();
  result.peak_memory_bytes.assign(report.peak_memory_bytes().begin(),
                                  report.peak_memory_bytes().end());
  if (record) {
    std::vector<Nanos> starts;
    for (Nanos start : clock.step_starts()) starts.push_back(start - epoch_ns_);
    result.trace = ExecutedTrace(options_.plan, std::move(report), starts);
  }
  return result;
}

}  // namespace dpipe

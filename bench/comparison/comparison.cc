#include "bench/comparison/comparison.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "bench/comparison/contender.h"
#include "bench/comparison/loss_check.h"
#include "bench/comparison/session_groups.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"
#include "core/profile/median_profile.h"
#include "core/report/plan_text.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/instruction_times.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/sim/simulator.h"

namespace dpipe::bench {
namespace {

// Profiling's share of the progress bar.
constexpr double kProfilingShare = 0.2;

// Passes per profile between two turns. Few, because the median over profiles is taken as well.
constexpr int kPassesBetweenTurns = 3;

// Adds the local batches of the plan's passes, which must be timed to predict them.
void AddLocalBatches(const Plan& plan, std::set<int>* batches) {
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::FORWARD) {
        batches->insert(instruction.samples().end() - instruction.samples().begin());
      }
    }
  }
}

class ComparisonRun {
 public:
  ComparisonRun(const TrainingJob& job, const ComparisonOptions& options,
                report::Progress* progress)
      : job_(job), options_(options), progress_(progress) {
    job_.slow_down = options.slow_down;
  }

  absl::StatusOr<Comparison> Run() {
    for (const std::string& name : options_.strategies) {
      Contender contender;
      contender.name = name;
      DPIPE_ASSIGN_OR_RETURN(contender.strategy, FindStrategy(name));
      contenders_.push_back(std::move(contender));
    }
    DPIPE_RETURN_IF_ERROR(Prepare());
    if (groups_.groups.empty()) return Conclude();
    for (size_t i = 0; i < groups_.groups.size(); ++i) {
      DPIPE_ASSIGN_OR_RETURN(const bool stops, Stops());
      DPIPE_RETURN_IF_ERROR(stops ? LeaveOut(groups_.groups[i])
                                  : MeasureGroup(static_cast<int>(i)));
    }
    if (!AnyTurn()) return Stopped();
    if (leads()) DPIPE_RETURN_IF_ERROR(Summarize());
    return Conclude();
  }

 private:
  bool leads() const { return job_.processes == nullptr || job_.processes->is_leader(); }

  // Profiles, plans, and trains the reference on one device, before the first turn.
  absl::Status Prepare() {
    DPIPE_RETURN_IF_ERROR(Profile());
    for (Contender& contender : contenders_) {
      DPIPE_ASSIGN_OR_RETURN(const bool stops, Stops());
      if (stops) return Stopped();
      DPIPE_RETURN_IF_ERROR(PlanFor(&contender));
    }
    DPIPE_ASSIGN_OR_RETURN(groups_, Groups());
    if (groups_.groups.empty() || options_.reference_steps == 0) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(const bool stops, Stops());
    if (stops) return Stopped();
    if (!leads()) return absl::OkStatus();
    DPIPE_ASSIGN_OR_RETURN(reference_,
                           OneDeviceSteps(job_, comparison_.profile, options_.global_batch,
                                          options_.num_micro_batches, options_.reference_steps));
    return absl::OkStatus();
  }

  // True once somebody has asked to stop; the same in all processes.
  absl::StatusOr<bool> Stops() {
    if (!options_.stop_requested || !stopped_by_.empty()) return !stopped_by_.empty();
    stopped_by_ = options_.stop_requested();
    if (job_.processes != nullptr) {
      DPIPE_ASSIGN_OR_RETURN(stopped_by_,
                             job_.processes->FromLeader("whether to continue", stopped_by_));
    }
    return !stopped_by_.empty();
  }

  absl::Status Stopped() const {
    return absl::CancelledError(
        absl::StrCat("stopped by ", stopped_by_, " before every strategy had taken a turn"));
  }

  bool AnyTurn() const {
    return std::any_of(contenders_.begin(), contenders_.end(), [](const Contender& contender) {
      return contender.planned() && contender.result.skipped().empty();
    });
  }

  // Marks the strategies of a group that did not all take a turn.
  absl::Status LeaveOut(const std::vector<int>& group) {
    for (const int i : group) {
      Contender& contender = contenders_[i];
      contender.result.set_skipped(
          absl::StrCat("stopped by ", stopped_by_, " before all of its group had taken a turn"));
      contender.outcome = StrategyOutcome();
    }
    return absl::OkStatus();
  }

  absl::Status MeasureGroup(int number) {
    const std::vector<int>& group = groups_.groups[number];
    DPIPE_RETURN_IF_ERROR(StartSessions(group));
    for (const int i : group) contenders_[i].result.set_session_group(number);
    DPIPE_ASSIGN_OR_RETURN(const int turns, TakeTurns(group));
    DPIPE_RETURN_IF_ERROR(EndSessions(group));
    if (turns == options_.repeats) return absl::OkStatus();
    comparison_.results.set_interrupted(
        absl::StrCat(stopped_by_, " after ", turns, " of ", options_.repeats, " turns"));
    if (turns == 0) return LeaveOut(group);
    for (const int i : group) KeepTurns(turns, options_, &contenders_[i]);
    return absl::OkStatus();
  }

  // Returns the same groups in all processes, which have the same plans, profile and cluster.
  absl::StatusOr<SessionGroups> Groups() {
    std::vector<const Plan*> plans;
    for (const Contender& contender : contenders_) plans.push_back(&contender.outcome.plan);
    DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                           CostModel::Create(comparison_.profile, comparison_.cluster));
    const std::vector<int> batches(local_batches_.begin(), local_batches_.end());
    SessionGroups found = GroupSessions(NeedsOf(plans, batches, cost));
    if (!found.all_at_once) {
      progress_->Message(
          absl::StrCat("the devices have no memory for all strategies at once: measuring them in ",
                       found.groups.size(), " group(s), one after another"));
    }
    return found;
  }

  // Profiles before each group if there is no memory for it between the turns.
  absl::Status StartSessions(const std::vector<int>& group) {
    const bool profiles_now = !groups_.all_at_once && num_profiles() < options_.profiles;
    if (profiles_now) {
      if (options_.before_turn) DPIPE_RETURN_IF_ERROR(options_.before_turn());
      DPIPE_RETURN_IF_ERROR(ProfileBetweenTurns());
    }
    for (const int i : group) {
      Contender& contender = contenders_[i];
      DPIPE_ASSIGN_OR_RETURN(contender.session, StartSession(job_, contender.outcome.plan));
    }
    return absl::OkStatus();
  }

  // Returns the number of turns that every strategy of the group has taken: fewer after a stop.
  absl::StatusOr<int> TakeTurns(const std::vector<int>& group) {
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      if (options_.before_turn) DPIPE_RETURN_IF_ERROR(options_.before_turn());
      const int max_profiles = std::min(options_.profiles, options_.repeats);
      if (groups_.all_at_once && num_profiles() * options_.repeats <= repeat * max_profiles) {
        DPIPE_RETURN_IF_ERROR(ProfileBetweenTurns());
      }
      // Each repeat begins with another strategy, so that none always follows the same one.
      for (size_t i = 0; i < group.size(); ++i) {
        if (i > 0 && options_.before_turn) DPIPE_RETURN_IF_ERROR(options_.before_turn());
        DPIPE_ASSIGN_OR_RETURN(const bool stops, Stops());
        if (stops) return repeat;
        DPIPE_RETURN_IF_ERROR(Measure(&contenders_[group[(repeat + i) % group.size()]], repeat));
      }
    }
    return options_.repeats;
  }

  // Ends the sessions in the same order in all processes. Other processes wait for the leader.
  absl::Status EndSessions(const std::vector<int>& group) {
    for (const int i : group) {
      Contender& contender = contenders_[i];
      if (!leads()) DPIPE_RETURN_IF_ERROR(contender.session->Follow());
      contender.session = nullptr;
    }
    return absl::OkStatus();
  }

  int num_profiles() const { return static_cast<int>(profiles_.size()); }

  absl::Status Profile() {
    auto show = [this](double done) {
      report::ProgressState state;
      state.phase = "profiling the model on this machine";
      state.fraction_done = kProfilingShare * done;
      progress_->Update(state);
    };
    show(0);
    const std::string profile_path = options_.shared_profile + ".profile.textproto";
    const std::string cluster_path = options_.shared_profile + ".cluster.textproto";
    const bool share = !options_.shared_profile.empty();
    // Profile even if stored files will be used: of two programs in turns, the one that has
    // profiled stays slower by about a percent, so both must do it.
    DPIPE_ASSIGN_OR_RETURN(comparison_.cluster, MeasureCluster(job_));
    absl::StatusOr<ModelProfile> profile =
        ProfileJob(job_, CandidateLocalBatches(options_.global_batch), show);
    if (absl::IsCancelled(profile.status())) {
      DPIPE_RETURN_IF_ERROR(Stops().status());
      return Stopped();
    }
    DPIPE_RETURN_IF_ERROR(profile.status());
    comparison_.profile = *std::move(profile);
    if (!share) return absl::OkStatus();
    // The cluster is stored last: if its file exists, so does the profile's.
    if (std::filesystem::exists(cluster_path)) {
      DPIPE_RETURN_IF_ERROR(ReadTextProto(cluster_path, &comparison_.cluster));
      return ReadTextProto(profile_path, &comparison_.profile);
    }
    DPIPE_RETURN_IF_ERROR(WriteTextProto(profile_path, comparison_.profile));
    return WriteTextProto(cluster_path, comparison_.cluster);
  }

  absl::Status ProfileBetweenTurns() {
    DPIPE_ASSIGN_OR_RETURN(ClusterSpec cluster, MeasureCluster(job_));
    absl::StatusOr<ModelProfile> profile =
        ProfileJob(job_, {local_batches_.begin(), local_batches_.end()},
                   /*on_progress=*/nullptr, kPassesBetweenTurns);
    if (absl::IsCancelled(profile.status())) return absl::OkStatus();  // the next turn stops
    DPIPE_RETURN_IF_ERROR(profile.status());
    clusters_.push_back(std::move(cluster));
    profiles_.push_back(*std::move(profile));
    return absl::OkStatus();
  }

  absl::Status SkipOrFail(Contender* contender, const absl::Status& reason) {
    if (!options_.skip_impossible) return reason;
    contender->result.set_skipped(std::string(reason.message()));
    progress_->Message(absl::StrCat("skipped ", contender->name, ": ", reason.message()));
    return absl::OkStatus();
  }

  // Leaves a skipped contender without a plan.
  absl::Status Search(Contender* contender) {
    PlanOptions options;
    options.global_batch = options_.global_batch;
    options.num_micro_batches = options_.num_micro_batches;
    const Nanos start = MonotonicNow();
    auto planned = MakePlan(contender->strategy, comparison_.profile, comparison_.cluster, options);
    if (!planned.ok()) return SkipOrFail(contender, planned.status());
    contender->outcome.plan = std::move(planned->plan);
    const Plan& plan = contender->outcome.plan;
    progress_->Message(absl::StrCat(
        "planned ", contender->name, " in ", FormatDuration(MonotonicNow() - start), " (",
        planned->num_considered, " candidates): ", plan.stages_size(), " stage(s), ",
        plan.num_micro_batches(), " micro-batch(es) of ", plan.micro_batch_size(), ", step ",
        FormatDuration(plan.prediction().step_ns())));
    return absl::OkStatus();
  }

  // Lets one process search, so that all have the same plan. Leaves a skipped contender without
  // devices.
  absl::Status PlanFor(Contender* contender) {
    contender->result.set_strategy(contender->name);
    Plan& plan = contender->outcome.plan;
    if (leads()) DPIPE_RETURN_IF_ERROR(Search(contender));
    if (job_.processes != nullptr) {
      DPIPE_ASSIGN_OR_RETURN(
          const std::string text,
          job_.processes->FromLeader("the plan of " + contender->name, plan.SerializeAsString()));
      if (!plan.ParseFromString(text))
        return absl::InternalError("the leader's plan cannot be parsed");
    }
    if (plan.devices_size() == 0) return absl::OkStatus();
    StrategyResult& result = contender->result;
    result.set_is_unfilled_pipeline(IsUnfilledPipeline(contender->strategy, plan));
    result.set_clips_gradients(plan.global_norm());
    result.set_changes_mathematics(plan.has_relaxation() || !plan.compression().empty());
    *result.mutable_plan() = SummarizePlan(plan);
    result.set_step_ms_planned(static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli);
    AddLocalBatches(plan, &local_batches_);
    return absl::OkStatus();
  }

  // Summarizes the turns, and predicts them from the profiles taken between them.
  absl::Status Summarize() {
    DPIPE_ASSIGN_OR_RETURN(comparison_.profile_between_turns, MedianProfile(profiles_));
    DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MedianCluster(clusters_));
    DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                           CostModel::Create(comparison_.profile_between_turns, cluster));
    for (Contender& contender : contenders_) {
      if (!contender.planned()) continue;
      DPIPE_RETURN_IF_ERROR(SummarizeTurns(&contender));
      DPIPE_RETURN_IF_ERROR(Predict(cost, &contender));
    }
    return absl::OkStatus();
  }

  absl::Status Predict(const CostModel& cost, Contender* contender) const {
    Plan plan = contender->outcome.plan;
    DPIPE_RETURN_IF_ERROR(
        AnnotatePrediction(&plan, cost, plan.prediction().unfilled_bubble_ratio()));
    StrategyResult& result = contender->result;
    SetPrediction(plan, &result);
    SimulateOptions simulate;
    simulate.num_steps = options_.warmup_steps + options_.steps;
    DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, simulate));
    contender->outcome.predicted = ToTrace(simulation, plan);
    DPIPE_ASSIGN_OR_RETURN(const report::TraceIndex index,
                           report::TraceIndex::Create(contender->outcome.predicted));
    report::WorkTimes predicted;
    DPIPE_RETURN_IF_ERROR(predicted.Add(contender->outcome.predicted, index.SteadySteps()));
    for (InstructionTimes& one : report::CompareTimes(contender->work_times, predicted)) {
      *result.add_instruction_times() = std::move(one);
    }
    return absl::OkStatus();
  }

  absl::Status Measure(Contender* contender, int repeat) {
    if (!leads()) return contender->session->FollowNext();
    const int count = options_.warmup_steps + options_.steps;
    auto on_step = [&](const StepResult& step) { Show(*contender, repeat, step); };
    DPIPE_ASSIGN_OR_RETURN(RunResult run, contender->session->Run(count, /*is_last=*/false,
                                                                  /*record=*/true, on_step));
    return AddTurn(options_, std::move(run), contender);
  }

  // Runs on a thread of the session, one call at a time.
  void Show(const Contender& contender, int repeat, const StepResult& step) {
    const int count = options_.warmup_steps + options_.steps;
    const double total = static_cast<double>(count) * options_.repeats * contenders_.size();
    report::ProgressState state;
    state.phase = "measuring";
    state.detail = contender.name;
    state.repeat = repeat + 1;
    state.num_repeats = options_.repeats;
    state.step = static_cast<int>(step.step % count) + 1;
    state.num_steps = count;
    state.images_per_second =
        static_cast<double>(options_.global_batch) * kNanosPerSecond / step.duration_ns;
    state.loss = step.loss;
    state.fraction_done = kProfilingShare + (1 - kProfilingShare) * (++steps_done_ / total);
    progress_->Update(state);
  }

  // Checks that the strategies computed the right steps. If they disagree in a step beyond the
  // reference, trains on one device up to that step.
  void Judge() {
    const StepTolerance tolerance = ToleranceOf(job_.compute_dtype);
    auto* const results = comparison_.results.mutable_strategies();
    const std::optional<int> open = CheckSteps(reference_, tolerance, results);
    if (!open.has_value() || !stopped_by_.empty()) return;
    progress_->Message(
        absl::StrCat("strategies disagree in step ", *open,
                     ": training as many steps on one device to find the right one"));
    auto longer = OneDeviceSteps(job_, comparison_.profile, options_.global_batch,
                                 options_.num_micro_batches, *open + 1);
    if (longer.ok()) {
      CheckSteps(*longer, tolerance, results);
    } else {
      progress_->Message(
          absl::StrCat("training on one device failed: ", longer.status().message()));
    }
  }

  Comparison Conclude() {
    for (Contender& contender : contenders_) {
      *comparison_.results.add_strategies() = std::move(contender.result);
      comparison_.outcomes.push_back(std::move(contender.outcome));
    }
    if (leads()) Judge();
    comparison_.results.set_num_devices(
        static_cast<int>(job_.workers.size()) *
        (job_.processes == nullptr ? 1 : job_.processes->num_processes()));
    comparison_.results.set_global_batch(options_.global_batch);
    comparison_.results.set_dtype(std::string(DTypeName(job_.compute_dtype)));
    return std::move(comparison_);
  }

  TrainingJob job_;
  const ComparisonOptions& options_;
  report::Progress* const progress_;
  std::vector<Contender> contenders_;
  std::set<int> local_batches_;
  SessionGroups groups_;
  std::vector<ModelProfile> profiles_;  // taken between the turns
  std::vector<ClusterSpec> clusters_;
  StepNumbers reference_;
  std::string stopped_by_;  // empty: nobody has asked to stop
  Comparison comparison_;
  int steps_done_ = 0;
};

}  // namespace

PlanSummary SummarizePlan(const Plan& plan) {
  PlanSummary summary;
  summary.set_devices_per_pipeline(plan.devices_per_pipeline());
  summary.set_num_stages(plan.stages_size());
  summary.set_num_micro_batches(plan.num_micro_batches());
  summary.set_micro_batch_size(plan.micro_batch_size());
  for (const Stage& stage : plan.stages()) {
    if (stage.recompute()) summary.set_recomputes(true);
    if (stage.sharded()) summary.set_sharded(true);
  }
  summary.set_description(report::StagesText(plan));
  return summary;
}

bool IsUnfilledPipeline(const Strategy& strategy, const Plan& plan) {
  const bool is_pipeline =
      std::any_of(plan.chains().begin(), plan.chains().end(),
                  [](const PipelineChain& chain) { return chain.num_stages() > 1; });
  return strategy.frozen() == "first" && is_pipeline;
}

void SetPrediction(const Plan& annotated, StrategyResult* result) {
  const Prediction& prediction = annotated.prediction();
  result->set_step_ms_predicted(static_cast<double>(prediction.step_ns()) / kNanosPerMilli);
  result->set_step_ms_bound(static_cast<double>(prediction.lower_bound_ns()) / kNanosPerMilli);
  result->set_bubble_ratio_predicted(prediction.bubble_ratio());
  *result->mutable_peak_memory_bytes_predicted() = prediction.peak_memory_bytes();
}

absl::Status SetIdleByReason(const Trace& trace, StrategyResult* result) {
  DPIPE_ASSIGN_OR_RETURN(const report::TraceIndex index, report::TraceIndex::Create(trace));
  auto& shares = *result->mutable_idle_by_reason();
  shares.clear();
  double total_ns = 0;
  for (const report::DeviceTime& device : report::DeviceTimes(index, index.SteadySteps())) {
    total_ns += device.step_ns;
    for (int reason = WARM_UP; reason < BubbleReason_ARRAYSIZE; ++reason) {
      shares[report::BubbleReasonName(static_cast<BubbleReason>(reason))] += device.idle_ns[reason];
    }
  }
  for (auto& [name, share] : shares) share /= total_ns;
  return absl::OkStatus();
}

absl::StatusOr<Comparison> CompareStrategies(const TrainingJob& job,
                                             const ComparisonOptions& options,
                                             report::Progress* progress) {
  if (options.strategies.empty()) return absl::InvalidArgumentError("no strategy was requested");
  if (options.global_batch < 1 || options.steps < 1 || options.repeats < 1 ||
      options.warmup_steps < 1 || options.profiles < 1 || options.reference_steps < 0 ||
      options.slow_down < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "global batch (", options.global_batch, "), steps (", options.steps, "), warm-up steps (",
        options.warmup_steps, "), repeats (", options.repeats, ") and profiles (", options.profiles,
        ") must be at least 1, reference steps (", options.reference_steps, ") and slow-down (",
        options.slow_down, ") not negative"));
  }
  ComparisonRun run(job, options, progress);
  auto comparison = run.Run();
  // Before the sessions end, because they wait for each other unless the job has failed.
  if (!comparison.ok() && job.processes != nullptr) {
    job.processes->store().Fail(comparison.status());
  }
  return comparison;
}

}  // namespace dpipe::bench

#include "bench/comparison.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "bench/loss_check.h"
#include "bench/session_groups.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"
#include "core/profile/median_profile.h"
#include "core/report/bubbles.h"
#include "core/report/instruction_times.h"
#include "core/report/plan_text.h"
#include "core/report/stats.h"
#include "core/schedule/plan_io.h"
#include "core/schedule/trace_stats.h"
#include "core/sim/annotate.h"
#include "core/sim/simulator.h"

namespace dpipe::bench {
namespace {

// One strategy under measurement.
struct Contender {
  std::string name;
  Strategy strategy;
  StrategyOutcome outcome;
  report::StrategyResult result;
  std::vector<double> bubble_ratios;  // one a repeat
  report::WorkTimes work_times;       // of all measured steps
  std::unique_ptr<LocalSession> session;
};

// Profiling takes this share of the time that the progress line speaks of.
constexpr double kProfilingShare = 0.2;

// Passes of a profile between two turns: the median is taken over profiles as well.
constexpr int kPassesBetweenTurns = 3;

// The numbers of samples that the plans' passes have: all that must be timed to predict them.
void AddLocalBatches(const Plan& plan, std::set<int>* batches) {
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::FORWARD) {
        batches->insert(instruction.samples().end() - instruction.samples().begin());
      }
    }
  }
}

std::vector<StreamEvent> EventsOf(const Trace& trace) {
  std::vector<StreamEvent> events;
  for (const TraceEvent& event : trace.events()) {
    events.push_back({event.rank(), event.stream(), event.step(), event.instruction(),
                      event.start_ns(), event.end_ns()});
  }
  return events;
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
    DPIPE_RETURN_IF_ERROR(Profile());
    for (Contender& contender : contenders_) DPIPE_RETURN_IF_ERROR(PlanFor(&contender));
    DPIPE_ASSIGN_OR_RETURN(groups_, Groups());
    if (groups_.groups.empty()) return Conclude();
    if (options_.reference_steps > 0 && leads()) {
      DPIPE_ASSIGN_OR_RETURN(reference_losses_,
                             OneDeviceLosses(job_, comparison_.profile, options_.global_batch,
                                             options_.reference_steps));
    }
    for (const std::vector<int>& group : groups_.groups) {
      DPIPE_RETURN_IF_ERROR(StartSessions(group));
      DPIPE_RETURN_IF_ERROR(TakeTurns(group));
      DPIPE_RETURN_IF_ERROR(EndSessions(group));
    }
    if (leads()) DPIPE_RETURN_IF_ERROR(Predict());
    return Conclude();
  }

 private:
  bool leads() const { return job_.processes == nullptr || job_.processes->is_leader(); }

  // Alike in all processes, which have the same plans, profile and cluster.
  absl::StatusOr<SessionGroups> Groups() {
    std::vector<const Plan*> plans;
    for (const Contender& contender : contenders_) plans.push_back(&contender.outcome.plan);
    DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                           CostModel::Create(comparison_.profile, comparison_.cluster));
    const std::vector<int> batches(local_batches_.begin(), local_batches_.end());
    SessionGroups found = GroupSessions(NeedsOf(plans, batches, cost));
    if (!found.all_at_once) {
      progress_->Message(absl::StrCat(
          "the devices have no memory for all strategies at once: they are measured in ",
          found.groups.size(), " group(s), one behind another"));
    }
    return found;
  }

  // Where there is no room for it between the turns, the model is profiled before each group's.
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

  absl::Status TakeTurns(const std::vector<int>& group) {
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      if (options_.before_turn) DPIPE_RETURN_IF_ERROR(options_.before_turn());
      const int most = std::min(options_.profiles, options_.repeats);
      if (groups_.all_at_once && num_profiles() * options_.repeats <= repeat * most) {
        DPIPE_RETURN_IF_ERROR(ProfileBetweenTurns());
      }
      // Each repeat begins with another strategy, so that none always follows the same one.
      for (size_t i = 0; i < group.size(); ++i) {
        if (i > 0 && options_.before_turn) DPIPE_RETURN_IF_ERROR(options_.before_turn());
        DPIPE_RETURN_IF_ERROR(Measure(&contenders_[group[(repeat + i) % group.size()]], repeat));
      }
    }
    return absl::OkStatus();
  }

  // In the order that all processes have. The others' wait until the leader's end.
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
    // Also where what is stored will be used: two programs in turns must have done the same before,
    // or the one that profiled is slower ever after, by a percent or so.
    DPIPE_ASSIGN_OR_RETURN(comparison_.cluster, MeasureCluster(job_));
    DPIPE_ASSIGN_OR_RETURN(comparison_.profile,
                           ProfileJob(job_, CandidateLocalBatches(options_.global_batch), show));
    if (!share) return absl::OkStatus();
    // The cluster is stored last: where it is, the profile is too.
    if (std::filesystem::exists(cluster_path)) {
      DPIPE_RETURN_IF_ERROR(ReadTextProto(cluster_path, &comparison_.cluster));
      return ReadTextProto(profile_path, &comparison_.profile);
    }
    DPIPE_RETURN_IF_ERROR(WriteTextProto(profile_path, comparison_.profile));
    return WriteTextProto(cluster_path, comparison_.cluster);
  }

  absl::Status ProfileBetweenTurns() {
    DPIPE_ASSIGN_OR_RETURN(clusters_.emplace_back(), MeasureCluster(job_));
    DPIPE_ASSIGN_OR_RETURN(profiles_.emplace_back(),
                           ProfileJob(job_, {local_batches_.begin(), local_batches_.end()},
                                      /*on_progress=*/nullptr, kPassesBetweenTurns));
    return absl::OkStatus();
  }

  absl::Status SkipOrFail(Contender* contender, const absl::Status& reason) {
    if (!options_.skip_impossible) return reason;
    contender->result.skipped = std::string(reason.message());
    progress_->Message(absl::StrCat("skipped ", contender->name, ": ", reason.message()));
    return absl::OkStatus();
  }

  // Leaves a contender that is skipped without a plan.
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

  // One process searches, so that all have one plan. Leaves a contender that is skipped without
  // devices.
  absl::Status PlanFor(Contender* contender) {
    contender->result.strategy = contender->name;
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
    contender->result.is_unfilled_pipeline =
        contender->strategy.frozen() == "first" && plan.stages_size() > 1;
    contender->result.clips_gradients = plan.global_norm();
    contender->result.plan = SummarizePlan(plan);
    contender->result.step_ms_planned =
        static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli;
    AddLocalBatches(plan, &local_batches_);
    return absl::OkStatus();
  }

  // From the profiles between the turns.
  absl::Status Predict() {
    DPIPE_ASSIGN_OR_RETURN(comparison_.profile_between_turns, MedianProfile(profiles_));
    DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MedianCluster(clusters_));
    DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                           CostModel::Create(comparison_.profile_between_turns, cluster));
    for (Contender& contender : contenders_) {
      Plan plan = contender.outcome.plan;
      if (plan.devices_size() == 0) continue;
      DPIPE_RETURN_IF_ERROR(
          AnnotatePrediction(&plan, cost, plan.prediction().unfilled_bubble_ratio()));
      report::StrategyResult& result = contender.result;
      result.step_ms_predicted = static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli;
      result.bubble_ratio_predicted = plan.prediction().bubble_ratio();
      result.step_over_bound = result.MedianStepMs() * kNanosPerMilli /
                               std::max<double>(1, plan.prediction().lower_bound_ns());
      SimulateOptions simulate;
      simulate.num_steps = options_.warmup_steps + options_.steps;
      DPIPE_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(plan, cost, simulate));
      contender.outcome.predicted = ToTrace(simulation, plan);
      DPIPE_ASSIGN_OR_RETURN(const report::TraceIndex index,
                             report::TraceIndex::Create(contender.outcome.predicted));
      report::WorkTimes predicted;
      DPIPE_RETURN_IF_ERROR(predicted.Add(contender.outcome.predicted, index.SteadySteps()));
      result.instruction_times = report::CompareTimes(contender.work_times, predicted);
    }
    return absl::OkStatus();
  }

  absl::Status Measure(Contender* contender, int repeat) {
    if (!leads()) return contender->session->FollowNext();
    const int count = options_.warmup_steps + options_.steps;
    auto on_step = [&](const StepResult& step) { Show(*contender, repeat, step); };
    DPIPE_ASSIGN_OR_RETURN(RunResult run, contender->session->Run(count, /*is_last=*/false,
                                                                  /*record=*/true, on_step));
    report::StrategyResult& result = contender->result;
    DPIPE_ASSIGN_OR_RETURN(result.idle_by_reason, IdleByReason(run.trace));
    std::vector<double> step_ms;
    for (int i = 0; i < count; ++i) {
      result.losses.push_back(run.steps[i].loss);
      if (i < options_.warmup_steps) continue;
      step_ms.push_back(static_cast<double>(run.steps[i].duration_ns) / kNanosPerMilli);
    }
    result.step_ms.insert(result.step_ms.end(), step_ms.begin(), step_ms.end());
    // Of the turn's median step: one that another program disturbed does not count for all.
    result.images_per_second.push_back(1000.0 * options_.global_batch / report::Median(step_ms));
    DPIPE_ASSIGN_OR_RETURN(const TraceStats stats,
                           ComputeTraceStats(contender->outcome.plan, EventsOf(run.trace),
                                             options_.warmup_steps, /*skip_last=*/false));
    contender->bubble_ratios.push_back(stats.bubble_ratio);
    result.peak_memory_bytes.resize(run.peak_memory_bytes.size());
    for (size_t i = 0; i < run.peak_memory_bytes.size(); ++i) {
      result.peak_memory_bytes[i] = std::max(result.peak_memory_bytes[i], run.peak_memory_bytes[i]);
    }
    DPIPE_RETURN_IF_ERROR(
        contender->work_times.Add(run.trace, {options_.warmup_steps, options_.steps}));
    contender->outcome.measured = std::move(run.trace);
    return absl::OkStatus();
  }

  // On a thread of the session's, one at a time.
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

  Comparison Conclude() {
    for (Contender& contender : contenders_) {
      report::StrategyResult& result = contender.result;
      result.bubble_ratio_measured = report::Median(contender.bubble_ratios);
      comparison_.results.results.push_back(std::move(result));
      comparison_.outcomes.push_back(std::move(contender.outcome));
    }
    if (options_.reference_steps > 0) {
      CheckLosses(reference_losses_, LossTolerance(job_.compute_dtype),
                  &comparison_.results.results);
    }
    comparison_.results.num_devices =
        static_cast<int>(job_.workers.size()) *
        (job_.processes == nullptr ? 1 : job_.processes->num_processes());
    comparison_.results.global_batch = options_.global_batch;
    comparison_.results.dtype = std::string(DTypeName(job_.compute_dtype));
    report::ComputeSpeedups(&comparison_.results);
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
  std::vector<double> reference_losses_;
  Comparison comparison_;
  int steps_done_ = 0;
};

}  // namespace

report::PlanSummary SummarizePlan(const Plan& plan) {
  report::PlanSummary summary;
  summary.devices_per_pipeline = plan.devices_per_pipeline();
  summary.num_stages = plan.stages_size();
  summary.num_micro_batches = plan.num_micro_batches();
  summary.micro_batch_size = plan.micro_batch_size();
  summary.description = report::StagesText(plan);
  return summary;
}

absl::StatusOr<std::map<std::string, double>> IdleByReason(const Trace& trace) {
  DPIPE_ASSIGN_OR_RETURN(const report::TraceIndex index, report::TraceIndex::Create(trace));
  std::map<std::string, double> shares;
  double total_ns = 0;
  for (const report::DeviceTime& device : report::DeviceTimes(index, index.SteadySteps())) {
    total_ns += device.step_ns;
    for (int reason = WARM_UP; reason < BubbleReason_ARRAYSIZE; ++reason) {
      shares[report::BubbleReasonName(static_cast<BubbleReason>(reason))] += device.idle_ns[reason];
    }
  }
  for (auto& [name, share] : shares) share /= total_ns;
  return shares;
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
  // Before sessions end, which wait for each other unless the job has failed.
  if (!comparison.ok() && job.processes != nullptr) {
    job.processes->store().Fail(comparison.status());
  }
  return comparison;
}

}  // namespace dpipe::bench

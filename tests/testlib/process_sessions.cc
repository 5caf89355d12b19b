#include "tests/testlib/process_sessions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/tensor/device_worker.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_model.h"

namespace dpipe::testlib {
namespace {

void ExpectSameBits(const Tensor& a, const Tensor& b, const std::string& name) {
  ASSERT_EQ(a.shape(), b.shape()) << name;
  const Tensor x = a.ToHost(), y = b.ToHost();
  EXPECT_EQ(std::memcmp(x.raw_data(), y.raw_data(), x.size_bytes()), 0) << name;
}

void ExpectSameState(const SessionState& a, const SessionState& b) {
  EXPECT_EQ(a.next_step, b.next_step);
  EXPECT_EQ(a.num_updates, b.num_updates);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const StateTensor &x = a.tensors[i], &y = b.tensors[i];
    const std::string name = x.kind + " of " + x.parameter;
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.parameter, y.parameter);
    EXPECT_EQ(x.begin, y.begin) << name;
    ExpectSameBits(x.part, y.part, name);
  }
}

}  // namespace

std::string JobShapeName(const JobShape& shape) {
  return absl::StrCat(shape.processes, "x", shape.ranks);
}

absl::Status TrainAll(LocalSession* session, SessionOutcome* outcome) {
  for (int done = 0; done < kSessionSteps; done += 2) {
    const bool is_last = done + 2 == kSessionSteps;
    DPIPE_ASSIGN_OR_RETURN(RunResult run, session->Run(2, is_last, /*record=*/is_last));
    for (const StepResult& step : run.steps) outcome->trained.losses.push_back(step.loss);
    outcome->trained.trace = std::move(run.trace);
    outcome->peaks = run.peak_memory_bytes;
  }
  DPIPE_ASSIGN_OR_RETURN(outcome->trained.parameters, session->CollectParameters());
  DPIPE_ASSIGN_OR_RETURN(outcome->averages, session->Collect(kAverageKind));
  DPIPE_ASSIGN_OR_RETURN(outcome->state, session->State());
  return absl::OkStatus();
}

StateReader ReaderOf(const SessionState* state) {
  return [state](const StateTensor& wanted) -> absl::Status {
    for (const StateTensor& saved : state->tensors) {
      if (saved.kind != wanted.kind || saved.parameter != wanted.parameter) continue;
      const int64_t begin = std::max(saved.begin, wanted.begin);
      const int64_t end = std::min(saved.end(), wanted.end());
      if (begin >= end) continue;
      Tensor(wanted.part)
          .Reshape({wanted.part.num_elements()})
          .Slice(begin - wanted.begin, end - wanted.begin)
          .CopyFrom(Tensor(saved.part)
                        .Reshape({saved.part.num_elements()})
                        .Slice(begin - saved.begin, end - saved.begin));
    }
    return absl::OkStatus();
  };
}

void ExpectSame(const SessionOutcome& expected, const SessionOutcome& actual) {
  EXPECT_EQ(FirstDifference(expected.trained, actual.trained), "");
  ExpectSameState(expected.state, actual.state);
  ASSERT_EQ(expected.averages.size(), actual.averages.size());
  for (const auto& [name, average] : expected.averages) {
    ExpectSameBits(average, actual.averages.at(name), name);
  }
  EXPECT_EQ(expected.trained.trace.events_size(), actual.trained.trace.events_size());
  EXPECT_EQ(expected.peaks.size(), actual.peaks.size());
}

// The objects that one process owns.
class ProcessSessions::Process {
 public:
  Process(const ProcessSessions& sessions, int ranks)
      : parameters_(MakeToyParameters(sessions.model_, /*seed=*/5)),
        inputs_(&sessions.model_, /*seed=*/9, DType::kF32) {
    std::vector<std::shared_ptr<Device>> devices;
    for (int i = 0; i < ranks; ++i) devices.push_back(sessions.make_device_());
    workers_ = StartWorkers(devices);
    job_.model = &sessions.model_;
    for (auto& worker : workers_) job_.workers.push_back(worker.get());
    job_.inputs = &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job_.optimizer.learning_rate.peak = 1e-2f;
    job_.optimizer.ema_decay = 0.9;
    job_.optimizer.max_grad_norm = 0.5;
    job_.deadline = absl::Seconds(60);
  }
  TrainingJob& job() { return job_; }

 private:
  ToyParameters parameters_;
  ToyInputs inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
};

ProcessSessions::ProcessSessions(std::function<std::shared_ptr<Device>()> make_device)
    : model_(MakeToyModel()), make_device_(std::move(make_device)) {}

absl::StatusOr<Plan> ProcessSessions::PlanFor(const std::string& strategy, int num_devices) const {
  PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.micro_batch_size = 2;
  return MakeTestPlan(SyntheticProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8}, 3),
                      request);
}

absl::StatusOr<SessionOutcome> ProcessSessions::RunAlone(const Plan& plan, const Lead& lead) const {
  Process process(*this, plan.num_devices());
  DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(process.job(), plan));
  SessionOutcome outcome;
  DPIPE_RETURN_IF_ERROR(lead(session.get(), &outcome));
  return outcome;
}

std::vector<absl::Status> ProcessSessions::RunApart(const Plan& plan, const JobShape& shape,
                                                    SessionOutcome* outcome, const Lead& lead,
                                                    const Follow& follow,
                                                    const Change& change) const {
  const Parts parts{plan, lead, follow, change, outcome};
  std::vector<absl::Status> statuses(shape.processes);
  RunAsThreads(LocalJob(shape.processes, shape.ranks), [&](const JobMember& member) {
    statuses[member.address.process] = RunOne(parts, member);
  });
  return statuses;
}

absl::Status ProcessSessions::RunOne(const Parts& parts, const JobMember& member) const {
  DPIPE_ASSIGN_OR_RETURN(const auto group, ProcessGroup::Join(member.address, member.options));
  Process process(*this, member.options.ranks_per_process);
  process.job().processes = group.get();
  parts.change(group->process(), &process.job());
  DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(process.job(), parts.plan));
  return group->is_leader() ? parts.lead(session.get(), parts.outcome)
                            : parts.follow(session.get(), group->process());
}

}  // namespace dpipe::testlib

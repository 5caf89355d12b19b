// Sessions of several processes compute what one process's do, and give and take the same state.
//
// The processes are threads here, which share nothing but the model: each has its own connection to
// the store, its own session and its own ranks, and all messages go through Gloo.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "baselines/registry.h"
#include "core/comm/rendezvous/process_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 4;

struct JobShape {
  int processes = 2;
  int ranks = 1;  // of each
};

// What one process has.
class Process {
 public:
  Process(const nn::Model* model, int ranks)
      : parameters_(testlib::MakeToyParameters(*model, /*seed=*/5)),
        inputs_(model, /*seed=*/9, DType::kF32) {
    std::vector<std::shared_ptr<Device>> devices;
    for (int i = 0; i < ranks; ++i) devices.push_back(Device::Cpu());
    workers_ = StartWorkers(devices);
    job_.model = model;
    for (auto& worker : workers_) job_.workers.push_back(worker.get());
    job_.inputs = &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = parameters_.backbone;
    job_.optimizer.learning_rate.peak = 1e-2f;
    job_.optimizer.ema_decay = 0.9;
    job_.optimizer.max_grad_norm = 0.5;
    job_.deadline = absl::Seconds(60);
  }
  TrainingJob& job() { return job_; }
  EmaWeights& ema() { return ema_; }

 private:
  testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
  EmaWeights ema_;
};

struct Outcome {
  testlib::TrainingOutcome trained;
  SessionState state;
  std::map<std::string, Tensor> averages;
  std::vector<int64_t> peaks;
};

using Lead = std::function<absl::Status(LocalSession*, Outcome*)>;
using FollowFn = std::function<absl::Status(LocalSession*, int process)>;
using ChangeFn = std::function<void(int process, TrainingJob*)>;

absl::Status TrainAll(LocalSession* session, Outcome* outcome) {
  for (int done = 0; done < kSteps; done += 2) {
    const bool is_last = done + 2 == kSteps;
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

class ProcessSessionTest : public ::testing::Test {
 protected:
  ProcessSessionTest() : model_(testlib::MakeToyModel()) {}

  absl::StatusOr<Plan> PlanFor(const std::string& strategy, int num_devices) const {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.micro_batch_size = 2;
    return testlib::MakeTestPlan(
        testlib::MadeUpProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8}, 3),
        request);
  }

  absl::StatusOr<Outcome> RunAlone(const Plan& plan, const Lead& lead = TrainAll) const {
    Process process(&model_, plan.num_devices());
    DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(process.job(), plan, &process.ema()));
    Outcome outcome;
    DPIPE_RETURN_IF_ERROR(lead(session.get(), &outcome));
    return outcome;
  }

  // Statuses by process; the leader's outcome. `follow` may be set to something worse than Follow,
  // and `change` changes a process's job before its session starts.
  std::vector<absl::Status> RunApart(
      const Plan& plan, const JobShape& shape, Outcome* outcome, const Lead& lead = TrainAll,
      const FollowFn& follow = FollowWell,
      const ChangeFn& change = [](int, TrainingJob*) {}) const {
    auto listener = ListenTcp(0);
    EXPECT_TRUE(listener.ok()) << listener.status();
    JobAddress address;
    address.host = "localhost";
    address.port = listener->port();
    address.num_processes = shape.processes;
    const int fd = listener->Release();
    std::vector<absl::Status> statuses(shape.processes);
    std::vector<std::thread> threads;
    for (int i = 0; i < shape.processes; ++i) {
      threads.emplace_back([&, i, address]() mutable {
        address.process = i;
        statuses[i] =
            RunOne(plan, address, i == 0 ? fd : -1, shape.ranks, outcome, lead, follow, change);
      });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
  }

  static absl::Status FollowWell(LocalSession* session, int process) { return session->Follow(); }

  const nn::Model model_;

 private:
  absl::Status RunOne(const Plan& plan, const JobAddress& address, int listener_fd, int ranks,
                      Outcome* outcome, const Lead& lead, const FollowFn& follow,
                      const ChangeFn& change) const {
    ProcessGroupOptions options;
    options.ranks_per_process = ranks;
    options.listener_fd = listener_fd;
    DPIPE_ASSIGN_OR_RETURN(const auto group, ProcessGroup::Join(address, options));
    Process process(&model_, ranks);
    process.job().processes = group.get();
    change(group->process(), &process.job());
    DPIPE_ASSIGN_OR_RETURN(auto session, StartSession(process.job(), plan, &process.ema()));
    return group->is_leader() ? lead(session.get(), outcome)
                              : follow(session.get(), group->process());
  }
};

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
    ASSERT_EQ(x.part.shape(), y.part.shape()) << name;
    EXPECT_EQ(std::memcmp(x.part.raw_data(), y.part.raw_data(), x.part.size_bytes()), 0) << name;
  }
}

class StrategiesTest : public ProcessSessionTest,
                       public ::testing::WithParamInterface<std::tuple<std::string, JobShape>> {};

// Bit for bit, whatever the strategy, because messages and sums are the same.
TEST_P(StrategiesTest, ProcessesComputeWhatThreadsDo) {
  const auto& [strategy, shape] = GetParam();
  const auto plan = PlanFor(strategy, shape.processes * shape.ranks);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto expected = RunAlone(*plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  Outcome actual;
  for (const absl::Status& status : RunApart(*plan, shape, &actual)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(testlib::FirstDifference(expected->trained, actual.trained), "");
  ExpectSameState(expected->state, actual.state);
  ASSERT_EQ(expected->averages.size(), actual.averages.size());
  for (const auto& [name, average] : expected->averages) {
    const Tensor& other = actual.averages.at(name);
    ASSERT_EQ(average.shape(), other.shape()) << name;
    EXPECT_EQ(std::memcmp(average.raw_data(), other.raw_data(), average.size_bytes()), 0) << name;
  }
  EXPECT_EQ(expected->trained.trace.events_size(), actual.trained.trace.events_size());
  EXPECT_EQ(actual.peaks.size(), plan->num_devices());
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, StrategiesTest,
    ::testing::Combine(::testing::Values("data_parallel", "zero3", "1f1b", "diffusionpipe",
                                         "opendiffusionpipe", "chimera"),
                       ::testing::Values(JobShape{2, 1}, JobShape{4, 1}, JobShape{2, 2})),
    [](const auto& info) {
      const JobShape& shape = std::get<1>(info.param);
      return std::get<0>(info.param) + "_" + std::to_string(shape.processes) + "x" +
             std::to_string(shape.ranks);
    });

// A run of four processes goes on in one, and the other way round.
TEST_F(ProcessSessionTest, StateGoesFromManyProcessesToOneAndBack) {
  const auto plan = PlanFor("zero3", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto whole = RunAlone(*plan);
  ASSERT_TRUE(whole.ok()) << whole.status();
  SessionState half;
  const Lead first_half = [&](LocalSession* session, Outcome* outcome) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(session->Run(2, /*is_last=*/false, /*record=*/false).status());
    DPIPE_ASSIGN_OR_RETURN(half, session->State());
    for (StateTensor& tensor : half.tensors) tensor.part = tensor.part.Clone();
    return absl::OkStatus();
  };
  const StateReader read = [&](const StateTensor& wanted) -> absl::Status {
    for (const StateTensor& saved : half.tensors) {
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
  const Lead second_half = [&](LocalSession* session, Outcome* outcome) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(session->Restore(half.num_updates, read));
    // Sessions begin at step 0 here; the two steps before are run on what is then restored again.
    DPIPE_RETURN_IF_ERROR(session->Run(2, /*is_last=*/false, /*record=*/false).status());
    DPIPE_RETURN_IF_ERROR(session->Restore(half.num_updates, read));
    DPIPE_RETURN_IF_ERROR(session->Run(2, /*is_last=*/true, /*record=*/false).status());
    DPIPE_ASSIGN_OR_RETURN(outcome->trained.parameters, session->CollectParameters());
    return absl::OkStatus();
  };
  Outcome outcome;
  for (const absl::Status& status : RunApart(*plan, {4, 1}, &outcome, first_half)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  auto expected = *whole;
  expected.trained.losses.clear();
  const auto alone = RunAlone(*plan, second_half);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(testlib::FirstDifference(expected.trained, alone->trained), "");
  for (const absl::Status& status : RunApart(*plan, {2, 2}, &outcome, second_half)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(testlib::FirstDifference(expected.trained, outcome.trained), "");
}

// Of zero3's shards of averages, process 2 has none to give: processes that have said what they
// have hear why nobody asks for it.
TEST_F(ProcessSessionTest, StateThatDoesNotFitTogetherEndsTheJob) {
  const auto plan = PlanFor("zero3", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto without_average = [](int process, TrainingJob* job) {
    if (process == 2) job->optimizer.ema_decay = 0;
  };
  Outcome outcome;
  const auto statuses = RunApart(
      *plan, {4, 1}, &outcome,
      [](LocalSession* session, Outcome*) { return session->State().status(); }, FollowWell,
      without_average);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the state 'average' of "));
  }
}

// Nobody is waited for with the ranks' deadline while the leader reads what is its own.
TEST_F(ProcessSessionTest, ALeaderMayTakeLongToReadItsState) {
  const auto plan = PlanFor("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  constexpr absl::Duration kDeadline = absl::Seconds(3);
  Outcome outcome;
  const auto restore = [&](LocalSession* session, Outcome*) {
    bool is_first = true;
    return session->Restore(0, [&](const StateTensor&) {
      if (std::exchange(is_first, false)) absl::SleepFor(kDeadline + absl::Seconds(1));
      return absl::OkStatus();
    });
  };
  const auto hurry = [&](int process, TrainingJob* job) { job->deadline = kDeadline; };
  for (const absl::Status& status : RunApart(*plan, {2, 1}, &outcome, restore, FollowWell, hurry)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A run of which the others cannot be told is an error like any other: the session has ended.
TEST_F(ProcessSessionTest, ARunThatCannotBeginEndsTheSession) {
  const auto plan = PlanFor("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Outcome outcome;
  const auto lead = [](LocalSession* session, Outcome*) {
    // Process 1 is gone by the time that it should say what it has.
    EXPECT_FALSE(session->State().ok());
    EXPECT_THAT(std::string(session->Run(1, false, false).status().message()),
                HasSubstr("has left the session before its end"));
    return session->Run(1, false, false).status();
  };
  const auto statuses =
      RunApart(*plan, {2, 1}, &outcome, lead, [](LocalSession*, int) -> absl::Status {
        return absl::DataLossError("rank 1: the disk is gone");
      });
  EXPECT_EQ(statuses[0].message(), "this session ended with an error");
}

// Process 2 never follows; everybody says so.
TEST_F(ProcessSessionTest, AFailedProcessIsNamedByAll) {
  const auto plan = PlanFor("1f1b", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Outcome outcome;
  const auto statuses = RunApart(*plan, {4, 1}, &outcome, TrainAll,
                                 [](LocalSession* session, int process) -> absl::Status {
                                   if (process == 2) {
                                     return absl::DataLossError("rank 2: the disk is gone");
                                   }
                                   return session->Follow();
                                 });
  for (int process : {0, 1, 3}) {
    EXPECT_FALSE(statuses[process].ok()) << process;
    EXPECT_THAT(std::string(statuses[process].message()), HasSubstr("rank 2")) << process;
  }
}

}  // namespace
}  // namespace dpipe

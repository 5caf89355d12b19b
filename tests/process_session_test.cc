// Checks that sessions of several processes compute the same as those of one process, and exchange
// state with them.
//
// The processes are threads here, and all messages go through Gloo.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/nn/parameter_source.h"
#include "core/proto/instruction_parts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/process_sessions.h"
#include "tests/testlib/session_conformance.h"

namespace dpipe {
namespace {

using testlib::JobShape;
using testlib::SessionConformanceTest;
using testlib::TrainAll;
using Outcome = testlib::SessionOutcome;
using ::testing::HasSubstr;

class ProcessSessionTest : public ::testing::Test, protected testlib::ProcessSessions {};

std::vector<absl::Status> RunOverGloo(const testlib::ProcessSessions& sessions, const Plan& plan,
                                      const JobShape& shape, Outcome* outcome) {
  return sessions.RunApart(plan, shape, outcome);
}

INSTANTIATE_TEST_SUITE_P(Gloo, SessionConformanceTest, testlib::SessionCases(RunOverGloo),
                         testlib::SessionCaseName);

// A run of four processes resumes in one process, and vice versa.
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
  const StateReader read = testlib::ReaderOf(&half);
  const Lead second_half = [&](LocalSession* session, Outcome* outcome) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(session->Restore(half.num_updates, read));
    // Sessions begin at step 0 here. The two previous steps run first, and Restore overwrites their
    // results.
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

// A process reads only the parameters of its own stages, and the frozen layers that it runs, each
// once. Collected one by one, trained parameters are the same as together.
TEST_F(ProcessSessionTest, EachProcessReadsItsOwnLayersOnly) {
  const auto plan = PlanFor("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages_size(), 2);
  absl::Mutex mutex;
  std::vector<std::multiset<std::string>> read(2), expected(2);  // by process
  std::vector<std::set<std::pair<int, LayerRange>>> loaded(2), run(2);
  const auto record = [&](int process, TrainingJob* job) {
    job->backbone_parameters = nn::SourceOf(
        [&, process, source = job->backbone_parameters](const nn::ParameterInfo& parameter) {
          absl::MutexLock lock(&mutex);
          read[process].insert(parameter.name);
          return source->Read(parameter);
        });
    job->load_frozen = [&, process](int component, LayerRange layers) {
      absl::MutexLock lock(&mutex);
      loaded[process].emplace(component, layers);
      return absl::OkStatus();
    };
  };
  const auto collect = [&](LocalSession* session, Outcome* outcome) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(TrainAll(session, outcome));
    EXPECT_FALSE(outcome->averages.empty());
    for (const auto& [name, together] : outcome->averages) {
      DPIPE_ASSIGN_OR_RETURN(const Tensor alone, session->CollectOne(kAverageKind, name));
      EXPECT_EQ(alone.shape(), together.shape()) << name;
      EXPECT_EQ(alone.span<float>(), together.span<float>()) << name;
    }
    EXPECT_EQ(session->CollectOne(kAverageKind, "x").status().code(), absl::StatusCode::kNotFound);
    return absl::OkStatus();
  };
  Outcome outcome;
  for (const absl::Status& status :
       RunApart(*plan, {2, 1}, &outcome, collect, FollowNormally, record)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  const nn::Program& program = model().backbone().program;
  for (const Stage& stage : plan->stages()) {
    const auto [begin, end] = program.ParameterRange(LayersIn(stage));
    for (int i = begin; i < end; ++i) {
      expected[stage.ranks(0)].insert(program.parameter(nn::ParameterId(i)).name);
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (const Instruction& instruction : plan->devices(rank).instructions()) {
      if (instruction.kind() != Instruction::FROZEN_FORWARD) continue;
      run[rank].emplace(instruction.component(), LayersIn(instruction));
    }
  }
  EXPECT_EQ(read, expected);
  EXPECT_EQ(loaded, run);
}

// Process 2 has no shards of zero3's averages to give. The processes that have reported theirs
// learn why nobody requests them.
TEST_F(ProcessSessionTest, InconsistentStateEndsTheJob) {
  const auto plan = PlanFor("zero3", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto without_average = [](int process, TrainingJob* job) {
    if (process == 2) job->optimizer.ema_decay = 0;
  };
  Outcome outcome;
  const auto statuses = RunApart(
      *plan, {4, 1}, &outcome,
      [](LocalSession* session, Outcome*) { return session->State().status(); }, FollowNormally,
      without_average);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the state 'average' of "));
  }
}

// The ranks' deadline does not apply while the leader reads its own state.
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
  for (const absl::Status& status :
       RunApart(*plan, {2, 1}, &outcome, restore, FollowNormally, hurry)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// If the others cannot be told to run, that is an error like any other: the session has ended.
TEST_F(ProcessSessionTest, ARunThatCannotBeginEndsTheSession) {
  const auto plan = PlanFor("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Outcome outcome;
  const auto lead = [](LocalSession* session, Outcome*) {
    // Process 1 has already left when it should report its state.
    EXPECT_FALSE(session->State().ok());
    EXPECT_THAT(std::string(session->Run(1, false, false).status().message()),
                HasSubstr("left the session early"));
    return session->Run(1, false, false).status();
  };
  const auto statuses =
      RunApart(*plan, {2, 1}, &outcome, lead, [](LocalSession*, int) -> absl::Status {
        return absl::DataLossError("rank 1: the disk is gone");
      });
  EXPECT_EQ(statuses[0].message(), "this session ended with an error");
}

// Process 2 never follows, and every process says so.
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

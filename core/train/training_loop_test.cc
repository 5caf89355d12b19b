#include "core/train/training_loop.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// A fake session whose steps all take the same time; its clock is the loop's.
class FakeSession {
 public:
  explicit FakeSession(Nanos step_ns) : step_ns_(step_ns) {}

  RunStepsFn run() {
    return [this](int count, bool is_last, const auto& on_step) -> absl::StatusOr<RunResult> {
      pieces_.push_back(count);
      EXPECT_FALSE(ended_) << "a run after the last one";
      ended_ = is_last;
      for (int i = 0; i < count; ++i) {
        now_ns_ += step_ns_;
        StepResult step;
        step.step = steps_++;
        if (on_step) on_step(step);
      }
      return RunResult();
    };
  }
  TrainingLoopOptions Options(int64_t num_steps) {
    TrainingLoopOptions options;
    options.num_steps = num_steps;
    options.clock = [this] { return now_ns_; };
    return options;
  }

  Nanos now_ns_ = 1000;
  int64_t steps_ = 0;
  bool ended_ = false;
  std::vector<int> pieces_;

 private:
  const Nanos step_ns_;
};

TEST(TrainingLoopTest, PiecesAreAboutOneRunLong) {
  FakeSession session(250 * kNanosPerMilli);
  const auto result = RunTrainingLoop(session.Options(11), session.run());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps_done, 11);
  EXPECT_EQ(result->reason, StopReason::kAllSteps);
  EXPECT_EQ(result->training_ns, 11 * 250 * kNanosPerMilli);
  EXPECT_EQ(session.pieces_, std::vector<int>({1, 4, 4, 2}));
  EXPECT_TRUE(session.ended_);
}

TEST(TrainingLoopTest, PausesComeAfterExactlyTheirSteps) {
  FakeSession session(kNanosPerMilli);
  TrainingLoopOptions options = session.Options(12);
  std::vector<std::string> events;
  options.pauses.push_back({3, [&](int64_t done) {
                              EXPECT_EQ(session.steps_, done);
                              events.push_back(absl::StrCat("save ", done));
                              return absl::OkStatus();
                            }});
  options.pauses.push_back({4, [&](int64_t done) {
                              EXPECT_EQ(session.steps_, done);
                              events.push_back(absl::StrCat("draw ", done));
                              return absl::OkStatus();
                            }});
  ASSERT_TRUE(RunTrainingLoop(options, session.run()).ok());
  // None after the last step.
  EXPECT_EQ(events, std::vector<std::string>({"save 3", "draw 4", "save 6", "draw 8", "save 9"}));
}

TEST(TrainingLoopTest, StopsWhenAskedAfterTheStepThatRuns) {
  FakeSession session(kNanosPerSecond);
  TrainingLoopOptions options = session.Options(100);
  options.should_stop = [&] { return session.steps_ >= 7; };
  const auto result = RunTrainingLoop(options, session.run());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps_done, 7);
  EXPECT_EQ(result->reason, StopReason::kRequested);
}

TEST(TrainingLoopTest, ExceedsTheTimeLimitByLessThanAStep) {
  const Nanos step_ns = 300 * kNanosPerMilli;
  FakeSession session(step_ns);
  TrainingLoopOptions options = session.Options(1000);
  options.time_limit_ns = 10 * kNanosPerSecond;
  options.pauses.push_back({5, [&](int64_t) {
                              session.now_ns_ += 100 * kNanosPerMilli;  // counts as well
                              return absl::OkStatus();
                            }});
  const auto result = RunTrainingLoop(options, session.run());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->reason, StopReason::kTimeLimit);
  EXPECT_GE(session.now_ns_ - 1000, options.time_limit_ns);
  EXPECT_LT(session.now_ns_ - 1000, options.time_limit_ns + step_ns);
  // 5 steps and a pause take 1.6 s: six times 1.6 s and two steps are 10.2 s.
  EXPECT_EQ(result->steps_done, 32);
}

TEST(TrainingLoopTest, ResumedRunPausesAtTheSameSteps) {
  FakeSession session(kNanosPerMilli);
  session.steps_ = 5;
  TrainingLoopOptions options = session.Options(12);
  options.first_step = 5;
  std::vector<int64_t> pauses, pieces;
  options.pauses.push_back({3, [&](int64_t done) {
                              pauses.push_back(done);
                              return absl::OkStatus();
                            }});
  options.after_piece = [&](int64_t done) {
    EXPECT_EQ(session.steps_, done);
    pieces.push_back(done);
    return done == 9 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  EXPECT_EQ(RunTrainingLoop(options, session.run()).status().message(), "enough");
  EXPECT_EQ(pauses, std::vector<int64_t>({6, 9}));
  EXPECT_EQ(pieces, pauses);
  options.first_step = 12;
  EXPECT_FALSE(RunTrainingLoop(options, session.run()).ok());
}

TEST(TrainingLoopTest, ErrorsStopTheLoop) {
  FakeSession session(kNanosPerSecond);
  TrainingLoopOptions options = session.Options(10);
  options.pauses.push_back({4, [](int64_t) { return absl::UnavailableError("disk full"); }});
  EXPECT_EQ(RunTrainingLoop(options, session.run()).status().message(), "disk full");
  EXPECT_EQ(session.steps_, 4);

  const auto failing = [](int, bool, const auto&) -> absl::StatusOr<RunResult> {
    return absl::InternalError("rank 1 failed");
  };
  EXPECT_EQ(RunTrainingLoop(session.Options(10), failing).status().message(), "rank 1 failed");
  EXPECT_NE(RunTrainingLoop(session.Options(0), session.run()).status().message().find("is 0"),
            std::string::npos);
}

}  // namespace

}  // namespace dpipe

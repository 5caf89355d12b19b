#include "bench/suite_runner/suite_run.h"

#include <string>
#include <vector>

#include "core/base/files/file.h"
#include "core/report/results/results.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three cases on a GPU, which run in processes of their own.
class SuiteRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ParseTextProto("name: 'small' groups { backends: 'cuda' models { name: 'tiny_sd' } "
                               "strategies: 'gpipe' devices: 1 global_batches: [1, 2, 3] }",
                               "test", &suite_)
                    .ok());
    auto cases = ExpandSuite(suite_);
    ASSERT_TRUE(cases.ok()) << cases.status();
    cases_ = *std::move(cases);
    options_.folder = ::testing::TempDir() + "/" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.fresh = true;
    options_.cases.say = [this](const std::string& line) { said_ += line + "\n"; };
    options_.after_case = [this](const Results& results) {
      EXPECT_TRUE(ReadFile(options_.folder + "/results.json").ok());
      num_cases_.push_back(results.cases_size());
    };
  }

  Suite suite_;
  std::vector<SuiteCase> cases_;
  SuiteRunOptions options_;
  std::string said_;
  std::vector<int> num_cases_;  // after each case
};

TEST_F(SuiteRunTest, ACaseThatEndsItsProgramFailsAndTheOthersGoOn) {
  options_.run_in_process = [this](const std::string& id) -> absl::Status {
    if (id == cases_[1].id) return absl::InternalError("its process ended with signal 6: no room");
    CaseResult result;
    result.set_id(id);
    return WriteFileAtomically(options_.folder + "/cases/" + id + ".json",
                               report::CaseToJson(result));
  };
  const auto results = RunSuite(suite_, cases_, options_);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(num_cases_, ElementsAre(1, 2, 3));
  EXPECT_EQ(results->cases(0).state(), CaseResult::MEASURED);
  EXPECT_EQ(results->cases(1).state(), CaseResult::FAILED);
  EXPECT_EQ(results->cases(1).reason(), "its process ended with signal 6: no room");
  EXPECT_EQ(results->cases(1).global_batch(), 2);
  EXPECT_EQ(results->cases(2).state(), CaseResult::MEASURED);
  EXPECT_THAT(said_, HasSubstr("failed: its process ended with signal 6"));
  const auto written = report::ResultsFromJson(*ReadFile(options_.folder + "/results.json"));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->cases_size(), 3);
}

// Files of an earlier run are not results of this one.
TEST_F(SuiteRunTest, AProgramThatLeavesNothingIsAnError) {
  cases_.resize(1);
  options_.run_in_process = [](const std::string&) { return absl::OkStatus(); };
  ASSERT_TRUE(MakeFolder(options_.folder + "/cases").ok());
  CaseResult old;
  old.set_id(cases_[0].id);
  ASSERT_TRUE(
      WriteFileAtomically(options_.folder + "/cases/" + old.id() + ".json", report::CaseToJson(old))
          .ok());
  EXPECT_FALSE(RunSuite(suite_, cases_, options_).ok());
}

// The next run measures the current case again.
TEST_F(SuiteRunTest, AStopKeepsTheCasesBeforeIt) {
  bool stop = false;
  options_.cases.stop_requested = [&] { return stop ? "SIGINT" : ""; };
  options_.run_in_process = [&](const std::string& id) -> absl::Status {
    if (id == cases_[1].id) {
      stop = true;
      return absl::CancelledError("stopped by SIGINT");
    }
    CaseResult result;
    result.set_id(id);
    return WriteFileAtomically(options_.folder + "/cases/" + id + ".json",
                               report::CaseToJson(result));
  };
  const auto results = RunSuite(suite_, cases_, options_);
  EXPECT_TRUE(absl::IsCancelled(results.status()));
  EXPECT_EQ(results.status().message(), "stopped by SIGINT after 1 of 3 cases");
  EXPECT_THAT(num_cases_, ElementsAre(1));
  EXPECT_FALSE(ReadFile(options_.folder + "/cases/" + cases_[1].id + ".json").ok());
  const auto written = report::ResultsFromJson(*ReadFile(options_.folder + "/results.json"));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->cases_size(), 1);
}

TEST_F(SuiteRunTest, ACaseIsNotBegunAfterAStop) {
  options_.cases.stop_requested = [] { return "SIGTERM"; };
  options_.run_in_process = [](const std::string&) -> absl::Status {
    ADD_FAILURE() << "a case was run";
    return absl::OkStatus();
  };
  EXPECT_EQ(RunSuite(suite_, cases_, options_).status().message(),
            "stopped by SIGTERM after 0 of 3 cases");
}

TEST_F(SuiteRunTest, TheEndOfTurnsEndsTheSuite) {
  options_.run_in_process = [](const std::string&) {
    return absl::CancelledError("no more turns");
  };
  EXPECT_TRUE(absl::IsCancelled(RunSuite(suite_, cases_, options_).status()));
  EXPECT_THAT(num_cases_, ElementsAre());
}

}  // namespace
}  // namespace dpipe::bench

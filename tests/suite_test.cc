// Runs a benchmark suite and the regression gate as a user does: small but complete.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"
#include "tests/testlib/running_program.h"

namespace dpipe {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testlib::ProgramOutcome;
using testlib::RunProgram;

// Cases that run, two of them simulated or emulated, and cases that cannot run here.
constexpr char kSuite[] = R"(
name: "small"
groups {
  backends: "cpu"
  models { name: "tiny_sd" }
  strategies: ["data_parallel", "1f1b", "zb-h1"]
  devices: [2, 4096]
  global_batches: [4, 2]
  micro_batches: 2
  repeats: 2
  steps: 2
  profiles: 1
  reference_steps: 2
}
groups {
  backends: "cuda"
  models { name: "tiny_sd" }
  strategies: "data_parallel"
  devices: 64
  global_batches: 64
}
groups {
  backends: ["simulated", "emulated"]
  models {
    name: "sd"
    profile: "data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto"
  }
  strategies: ["data_parallel", "diffusionpipe"]
  clusters: "data/clusters/a100_8x1.textproto"
  global_batches: 256
}
)";

constexpr char kFirst[] = "cpu.tiny_sd.2_devices.batch_4";
constexpr char kSecond[] = "cpu.tiny_sd.2_devices.batch_2";

class SuiteTest : public ::testing::Test {
 protected:
  SuiteTest() {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    data_ = ::testing::TempDir() + "/images";
    if (std::filesystem::exists(data_)) return;
    const ProgramOutcome made =
        RunProgram("data/make_dataset", {"--out=" + data_, "--count=32", "--seed=3"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
  }

  std::string WriteSuite(const std::string& text) {
    const std::string path = folder_ + "/suite.textproto";
    std::ofstream(path) << text;
    return path;
  }

  ProgramOutcome Suite(std::vector<std::string> flags) {
    flags.push_back("--suite=" + folder_ + "/suite.textproto");
    flags.push_back("--data=" + data_);
    flags.push_back("--out=" + folder_ + "/out");
    return RunProgram("bench/suite", flags, /*deadline_s=*/280);
  }

  json Results() { return json::parse(*ReadFile(folder_ + "/out/results.json")); }

  std::string folder_, data_;
};

// Returns the case of `results` with this id.
json CaseOf(const json& results, const std::string& id) {
  for (const json& one : results["cases"]) {
    if (one["id"] == id) return one;
  }
  return nullptr;
}

TEST_F(SuiteTest, RunsEveryCaseOnceAndContinues) {
  WriteSuite(kSuite);
  const ProgramOutcome first = Suite({});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const json results = Results();
  ASSERT_EQ(results["cases"].size(), 7u);
  EXPECT_EQ(CaseOf(results, "cpu.tiny_sd.4096_devices.batch_4")["state"], "SKIPPED");
  // Run by another program. No GPU can be divided into as many.
  const json gpu = CaseOf(results, "cuda.tiny_sd.64_devices.batch_64");
  EXPECT_EQ(gpu["state"], "SKIPPED") << gpu["reason"];
  EXPECT_THAT(first.out, HasSubstr("64_devices.batch_64 in a process of its own"));
  for (const json& result : CaseOf(results, kFirst)["strategies"]) {
    EXPECT_EQ(result.value("invalid", ""), "") << result["strategy"];
    EXPECT_EQ(result["loss_check"]["num_steps"], result["losses"].size()) << result["strategy"];
    EXPECT_EQ(result["images_per_second"].size(), 2u) << result["strategy"];
  }
  for (const json& result : CaseOf(results, "emulated.sd.a100_8x1.batch_256")["strategies"]) {
    EXPECT_EQ(result.value("invalid", ""), "") << result["strategy"];
    EXPECT_GT(result["loss_check"]["num_steps"], 0) << result["strategy"];
  }
  EXPECT_THAT(first.out, HasSubstr("4096 CPU devices need one core each"));
  EXPECT_THAT(*ReadFile(folder_ + "/out/report.html"), HasSubstr("</html>"));
  EXPECT_THAT(*ReadFile(folder_ + "/out/tables.md"), HasSubstr("| data_parallel"));

  // As if it had been interrupted in a later case.
  ASSERT_TRUE(std::filesystem::remove(folder_ + "/out/cases/" + kSecond + ".json"));
  const ProgramOutcome second = Suite({});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, AllOf(HasSubstr(absl::StrCat(kFirst, " already measured on")),
                                HasSubstr(absl::StrCat(kSecond, " took")),
                                Not(HasSubstr(absl::StrCat(kFirst, " took")))));
  EXPECT_EQ(CaseOf(Results(), kFirst), CaseOf(results, kFirst));
}

TEST_F(SuiteTest, ResultsOfOtherCodeAreMeasuredAgainOrNamed) {
  WriteSuite(R"(groups { backends: "simulated"
    models { name: "sd" profile:
      "data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto" }
    strategies: "data_parallel" global_batches: [64, 128]
    clusters: "data/clusters/a100_8x1.textproto" })");
  ASSERT_EQ(Suite({}).exit_code, 0);
  const std::string path = folder_ + "/out/cases/simulated.sd.a100_8x1.batch_128.json";
  json one = json::parse(*ReadFile(path));
  one["versions"]["program"] = "another";
  const auto forge = [&] { ASSERT_TRUE(WriteFileAtomically(path, one.dump()).ok()); };

  forge();
  ProgramOutcome run = Suite({"--mix"});
  EXPECT_THAT(run.out, HasSubstr("Mixed runs: simulated.sd.a100_8x1.batch_128"));
  EXPECT_THAT(*ReadFile(folder_ + "/out/report.html"), HasSubstr("Read this first"));

  run = Suite({});
  EXPECT_THAT(run.out, HasSubstr("measured again: its result is from another program"));
  EXPECT_THAT(run.out, Not(HasSubstr("Mixed runs")));
  EXPECT_NE(json::parse(*ReadFile(path))["versions"]["program"], "another");
}

TEST_F(SuiteTest, BadSuiteIsRefusedWithOneSentence) {
  WriteSuite(
      "groups { backends: 'cpu' models { name: 'm' } strategies: 'fastest' devices: 1 "
      "global_batches: 1 }");
  const ProgramOutcome run = Suite({});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("group 1"), HasSubstr("fastest")));
}

// The second case would run for hours.
TEST_F(SuiteTest, ASignalEndsItWithTheCasesSoFar) {
  WriteSuite(R"(groups { backends: "cpu" models { name: "tiny_sd" } strategies: "data_parallel"
      devices: 2 global_batches: 4 repeats: 1 steps: 1 profiles: 1 }
    groups { backends: "cpu" models { name: "tiny_sd" } strategies: "data_parallel"
      devices: 2 global_batches: 2 repeats: 100000 steps: 1 profiles: 1 })");
  testlib::ProgramOptions options;
  options.program = "bench/suite";
  options.arguments = {"--suite=" + folder_ + "/suite.textproto", "--data=" + data_,
                       "--out=" + folder_ + "/out"};
  options.out = folder_ + "/out.txt";
  options.err = folder_ + "/err.txt";
  options.deadline_s = 240;
  testlib::RunningProgram suite(options);
  while (!std::filesystem::exists(folder_ + "/out/report.html") && !suite.Poll()) usleep(10000);
  suite.Signal(SIGINT);
  suite.Wait();
  EXPECT_EQ(suite.exit_code(), 130);
  EXPECT_THAT(*ReadFile(options.err),
              AllOf(HasSubstr("SIGINT: stopping with the cases finished so far"),
                    HasSubstr("suite: stopped by SIGINT after 1 of 2 cases")));
  const json results = Results();
  ASSERT_EQ(results["cases"].size(), 1u);
  EXPECT_EQ(results["cases"][0]["id"], kFirst);
  EXPECT_EQ(results["cases"][0]["state"], "MEASURED");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out/cases/" + std::string(kSecond) + ".json"));
}

TEST_F(SuiteTest, AWrongCommandLineIsNoResult) {
  WriteSuite(kSuite);
  const ProgramOutcome suite = Suite({"--slow_down=-1"});
  EXPECT_EQ(suite.exit_code, 2);
  EXPECT_THAT(suite.err, HasSubstr("--slow_down=-1 must be at least 0; see --help"));
  EXPECT_EQ(Suite({"--frehs"}).exit_code, 2);
  const ProgramOutcome regress = RunProgram("bench/regress", {"--new=x", "--rounds=3"});
  EXPECT_EQ(regress.exit_code, 2);
  EXPECT_THAT(regress.err, HasSubstr("--rounds=3 must be an even number"));
}

TEST_F(SuiteTest, AModelThatCannotBeLoadedFailsItsCaseAlone) {
  WriteSuite(R"(groups { backends: "cpu" models { name: "no_such_model" } models { name: "tiny_sd" }
    strategies: "data_parallel" devices: 2 global_batches: 2 repeats: 1 steps: 1 profiles: 1 })");
  const ProgramOutcome run = Suite({});
  EXPECT_EQ(run.exit_code, 4) << run.out;
  EXPECT_THAT(run.err, HasSubstr("cpu.no_such_model.2_devices.batch_2"));
  const json results = Results();
  EXPECT_EQ(results["cases"][0]["state"], "FAILED");
  EXPECT_EQ(results["cases"][1]["state"], "MEASURED");
}

class RegressTest : public SuiteTest {
 protected:
  // Runs two programs in turns, both this one; the new one may be made slower. Any number of rounds
  // can show that nothing is slower, but more than two may be needed to show that something is.
  ProgramOutcome InTurns(int rounds, const std::string& new_flags) {
    WriteSuite(R"(groups { backends: "cpu" models { name: "tiny_sd" }
      strategies: ["data_parallel", "1f1b"] devices: 2 global_batches: 4 micro_batches: 2
      repeats: 4 steps: 1 profiles: 1 reference_steps: 1 })");
    return RunProgram(
        "bench/regress",
        {"--old_program=bench/suite", "--new_program=bench/suite",
         absl::StrCat("--rounds=", rounds), "--suite=" + folder_ + "/suite.textproto",
         "--out=" + folder_ + "/regress", "--new_flags=--data=" + data_ + " " + new_flags,
         "--old_flags=--data=" + data_},
        /*deadline_s=*/280);
  }
};

TEST_F(RegressTest, TheSameProgramPasses) {
  const ProgramOutcome run = InTurns(/*rounds=*/2, "");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("No regression: 3 rows"), HasSubstr("all rows"),
                             Not(HasSubstr("Not measured in turns"))));
}

TEST_F(RegressTest, ProgramAtAFifthOfTheSpeedFails) {
  const ProgramOutcome run = InTurns(/*rounds=*/6, "--slow_down=4");
  EXPECT_EQ(run.exit_code, 4) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("REGRESSION"), HasSubstr("SLOWER")));
}

TEST_F(RegressTest, FailingProgramIsNamedWithItsOutput) {
  const ProgramOutcome run = InTurns(/*rounds=*/2, "--no_such_flag");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("the new program ended with status 2"), HasSubstr("no_such_flag")));
}

TEST_F(RegressTest, UnmeasuredCasesDoNotPass) {
  WriteSuite(R"(groups { backends: "cpu" models { name: "tiny_sd" } strategies: "data_parallel"
    devices: 4096 global_batches: 4096 })");
  const ProgramOutcome suite = Suite({});
  ASSERT_EQ(suite.exit_code, 0) << suite.err;
  const std::string results = folder_ + "/out";
  const ProgramOutcome run = RunProgram("bench/regress", {"--old=" + results, "--new=" + results});
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.out, HasSubstr("NOTHING COMPARED: 0 rows"));
  EXPECT_THAT(run.err, HasSubstr("no row could be compared"));
}

TEST_F(RegressTest, ResultsAreComparedWithTheBaselineOfTheirMachineClass) {
  WriteSuite(R"(groups { backends: "simulated"
    models { name: "sd" profile:
      "data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto" }
    strategies: "data_parallel" global_batches: 64
    clusters: "data/clusters/a100_8x1.textproto" })");
  ASSERT_EQ(Suite({}).exit_code, 0);
  const std::vector<std::string> flags = {"--new=" + folder_ + "/out",
                                          "--baselines=" + folder_ + "/baselines"};
  const auto regress = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return RunProgram("bench/regress", more);
  };
  ProgramOutcome run = regress({});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("There is no baseline of this machine class"));
  EXPECT_EQ(regress({"--store"}).exit_code, 0);
  run = regress({});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("No regression: 1 rows, 1 same"));

  // The new result is slower than before by a tenth.
  json results = Results();
  json& samples = results["cases"][0]["strategies"][0]["images_per_second"];
  samples[0] = samples[0].get<double>() / 1.1;
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/out/results.json", results.dump()).ok());
  EXPECT_EQ(regress({}).exit_code, 4);
  results["cases"][0]["machine"]["cpu_model"] = "another";
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/other.json", results.dump()).ok());
  run = RunProgram("bench/regress",
                   {"--new=" + folder_ + "/other.json", "--old=" + folder_ + "/out"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("machine class"));

  // Results of different GPUs are not comparable either.
  json& machine = results["cases"][0]["machine"];
  for (const std::string gpu : {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}) {
    machine["gpus"] = {gpu};
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + gpu + ".json", results.dump()).ok());
  }
  const auto compare_gpus = [&](std::vector<std::string> flags) {
    flags.push_back("--old=" + folder_ + "/NVIDIA H100 80GB HBM3.json");
    flags.push_back("--new=" + folder_ + "/NVIDIA H200.json");
    return RunProgram("bench/regress", flags);
  };
  run = compare_gpus({});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("nvidia_h100_80gb_hbm3, the new ones of"),
                             HasSubstr("nvidia_h200; use --other_machines")));
  run = compare_gpus({"--other_machines"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("GPUs NVIDIA H100 80GB HBM3 and NVIDIA H200"));
}

}  // namespace
}  // namespace dpipe

// Plans, simulates and draws as a user does: a small model through all tools, and bad input.
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/cost/testing/fake_profile.h"
#include "core/proto/trace.pb.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testlib::ProgramOutcome;
using testlib::RunProgram;

class PlanningToolsTest : public ::testing::Test {
 protected:
  PlanningToolsTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    UniformProfileOptions options;
    options.num_layers = 8;
    options.forward_ns = kNanosPerMilli;
    options.grad_ns = kNanosPerMilli;
    options.frozen_layers = 4;
    options.frozen_ns = kNanosPerMilli / 2;
    options.value_bytes = 1000;
    options.parameter_bytes = 1 << 20;
    options.saved_bytes = 1 << 20;
    profile_ = UniformProfile(options);
    cluster_ = IdealCluster(4);
    cluster_.set_memory_bytes_per_device(int64_t{1} << 30);
    cluster_.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
    WriteInputs();
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  void WriteInputs() const {
    ASSERT_TRUE(WriteTextProto(Path("profile.textproto"), profile_).ok());
    ASSERT_TRUE(WriteTextProto(Path("cluster.textproto"), cluster_).ok());
  }

  ProgramOutcome Run(const std::string& tool, std::vector<std::string> flags) const {
    flags.push_back("--profile=" + Path("profile.textproto"));
    flags.push_back("--cluster=" + Path("cluster.textproto"));
    return RunProgram("tools/" + tool, flags);
  }

  // Makes a plan over four stages.
  ProgramOutcome MakePlanFile(const std::string& name,
                              const std::string& strategy = "diffusionpipe") const {
    return Run("plan", {"--strategy=" + strategy, "--global_batch=16", "--num_stages=4",
                        "--num_micro_batches=4", "--output=" + Path(name)});
  }

  Plan ReadPlanFile(const std::string& name) const {
    Plan plan;
    const absl::Status read = ReadTextProto(Path(name), &plan);
    EXPECT_TRUE(read.ok()) << read;
    return plan;
  }

  // Expects the program to refuse `plan` with a message that names the file and contains `message`.
  void ExpectRefused(const Plan& plan, const std::string& message) const {
    ASSERT_TRUE(WritePlan(Path("bad.textproto"), plan).ok());
    const ProgramOutcome run = Run("simulate", {"--plan=" + Path("bad.textproto")});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, StartsWith("simulate: " + Path("bad.textproto") + ": "));
    EXPECT_THAT(run.err, HasSubstr(message));
  }

  const std::string folder_ = ::testing::TempDir() + "/planning_tools";
  ModelProfile profile_;
  ClusterSpec cluster_;
};

TEST_F(PlanningToolsTest, FromAProfileToAPicture) {
  const ProgramOutcome planned = MakePlanFile("plan.textproto");
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const Plan plan = ReadPlanFile("plan.textproto");
  const std::string step =
      absl::StrFormat("%.2f ms", static_cast<double>(plan.prediction().step_ns()) / kNanosPerMilli);
  const std::vector<std::string> expected_plan_text = {
      "diffusionpipe for ",   "4 stages, 4 micro-batches of 4",
      step + " predicted",    "before filling",
      "of 1.0 GiB",           "chosen",
      "1 choices considered", Path("plan.textproto")};
  for (const std::string& expected : expected_plan_text) {
    EXPECT_THAT(planned.out, HasSubstr(expected));
  }

  const ProgramOutcome simulated =
      Run("simulate", {"--plan=" + Path("plan.textproto"), "--output=" + Path("trace.pb")});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  const std::vector<std::string> expected_simulation_text = {"Step:       " + step,
                                                             "x the lower bound of", "warm-up",
                                                             "on the critical path", "link 0 -> 1"};
  for (const std::string& expected : expected_simulation_text) {
    EXPECT_THAT(simulated.out, HasSubstr(expected));
  }

  for (const char* name : {"a.svg", "a.html", "a.json"}) {
    const ProgramOutcome drawn =
        RunProgram("tools/trace", {"--trace=" + Path("trace.pb"), "--output=" + Path(name)});
    ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
    // The same from the plan itself.
    const std::string again = absl::StrCat("from_plan_", name);
    const ProgramOutcome from_plan =
        Run("trace", {"--plan=" + Path("plan.textproto"), "--output=" + Path(again)});
    ASSERT_EQ(from_plan.exit_code, 0) << from_plan.err;
  }
  EXPECT_THAT(*ReadFile(Path("a.svg")), HasSubstr("class=\"crit\""));
  EXPECT_THAT(*ReadFile(Path("a.svg")), HasSubstr("class=\"mem\""));
  EXPECT_THAT(*ReadFile(Path("a.html")), HasSubstr("data-do=\"path\""));
  EXPECT_THAT(*ReadFile(Path("from_plan_a.svg")), HasSubstr("limit 1.0 GiB"));
  EXPECT_EQ(*ReadFile(Path("a.json")), *ReadFile(Path("from_plan_a.json")));
  EXPECT_GT(nlohmann::json::parse(*ReadFile(Path("a.json")))["traceEvents"].size(), 100u);
}

TEST_F(PlanningToolsTest, TextAndBinaryAreTheSame) {
  ASSERT_EQ(MakePlanFile("plan.textproto").exit_code, 0);
  ASSERT_EQ(MakePlanFile("plan.pb").exit_code, 0);
  Plan binary;
  ASSERT_TRUE(binary.ParseFromString(*ReadFile(Path("plan.pb"))));
  EXPECT_EQ(binary.SerializeAsString(), ReadPlanFile("plan.textproto").SerializeAsString());
  EXPECT_EQ(Run("simulate", {"--plan=" + Path("plan.pb")}).out,
            Run("simulate", {"--plan=" + Path("plan.textproto")}).out);
}

TEST_F(PlanningToolsTest, TwoPlansOnOneAxis) {
  ASSERT_EQ(MakePlanFile("a.pb", "gpipe").exit_code, 0);
  ASSERT_EQ(MakePlanFile("b.pb").exit_code, 0);
  for (const char* name : {"both.svg", "both.html", "both.json"}) {
    const ProgramOutcome drawn = Run(
        "trace", {"--plan=" + Path("a.pb"), "--compare=" + Path("b.pb"), "--output=" + Path(name)});
    ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
    EXPECT_THAT(*ReadFile(Path(name)), HasSubstr("gpipe"));
    EXPECT_THAT(*ReadFile(Path(name)), HasSubstr("diffusionpipe"));
  }
}

TEST_F(PlanningToolsTest, HelpFitsOnAScreenAndListIsComplete) {
  for (const char* tool : {"plan", "simulate", "trace"}) {
    const ProgramOutcome help = RunProgram(absl::StrCat("tools/", tool), {"--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("bazel run //tools:", tool, " -- ")));
    EXPECT_THAT(help.out, HasSubstr("\n\nMost used:\n  --p"));
    EXPECT_THAT(help.out, HasSubstr("--output"));
    EXPECT_THAT(help.out, Not(HasSubstr("--undefok"))) << "gflags' own";
    std::istringstream lines(help.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_LT(count, 60);
  }
  const ProgramOutcome list = RunProgram("tools/plan", {"--list"});
  EXPECT_EQ(list.exit_code, 0);
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  for (const char* name : {"diffusionpipe", "data_parallel", "zb-v", "skip_aware", "zero3"}) {
    EXPECT_THAT(list.out, HasSubstr(name));
  }
}

TEST_F(PlanningToolsTest, RoundTripsSchedulesOfTorch) {
  const std::string csv = Path("schedule.csv");
  for (const char* messages : {"--csv_messages=true", "--csv_messages=false"}) {
    const ProgramOutcome wrote =
        RunProgram("tools/plan", {"--schedule=interleaved", "--num_stages=2",
                                  "--num_micro_batches=4", "--to_torch_csv=" + csv, messages});
    ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
    const ProgramOutcome read = RunProgram("tools/plan", {"--from_torch_csv=" + csv});
    ASSERT_EQ(read.exit_code, 0) << read.err;
    // The same except for its name.
    EXPECT_EQ(read.out.substr(read.out.find(", 2 devices")),
              wrote.out.substr(wrote.out.find(", 2 devices"),
                               wrote.out.find("CSV:") - wrote.out.find(", 2 devices")));
    EXPECT_THAT(read.out, HasSubstr("2 devices, 4 stages, 4 micro-batches"));
  }
  // The order of a plan's passes is its schedule.
  for (const char* schedule : {"1f1b", "gpipe", "interleaved"}) {
    ASSERT_EQ(RunProgram("tools/plan", {absl::StrCat("--schedule=", schedule), "--num_stages=4",
                                        "--num_micro_batches=4", "--to_torch_csv=" + csv})
                  .exit_code,
              0);
    const ProgramOutcome planned =
        Run("plan", {absl::StrCat("--strategy=schedule=", schedule, ",frozen=fill"),
                     "--global_batch=16", "--num_stages=4", "--num_micro_batches=4",
                     "--devices_per_pipeline=4", "--to_torch_csv=" + Path("planned.csv")});
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_EQ(*ReadFile(Path("planned.csv")), *ReadFile(csv)) << schedule;
  }
}

// A plan by the file has the file's order, and is simulated without a plan file.
TEST_F(PlanningToolsTest, SchedulesFromTorchArePlannedAndSimulated) {
  const std::string csv = Path("schedule.csv"), planned_csv = Path("planned.csv");
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "dualpipe-v", "interleaved"}) {
    ASSERT_EQ(RunProgram("tools/plan",
                         {absl::StrCat("--schedule=", schedule), "--num_stages=4",
                          "--num_micro_batches=8", "--to_torch_csv=" + csv, "--csv_messages"})
                  .exit_code,
              0);
    const ProgramOutcome planned = Run(
        "plan", {"--from_torch_csv=" + csv, "--global_batch=16", "--to_torch_csv=" + planned_csv,
                 "--csv_messages", "--output=" + Path("plan.pb")});
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr(" stages, 8 micro-batches of 2"));
    EXPECT_EQ(*ReadFile(planned_csv), *ReadFile(csv)) << schedule;
    const ProgramOutcome simulated =
        Run("simulate", {"--from_torch_csv=" + csv, "--global_batch=16"});
    ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
    EXPECT_EQ(simulated.out, Run("simulate", {"--plan=" + Path("plan.pb")}).out);
  }
  ProgramOutcome run =
      Run("plan", {"--from_torch_csv=" + csv, "--global_batch=16", "--num_micro_batches=4"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "plan: " + csv +
                         " has 8 micro-batches; --num_micro_batches=4 must be that or left out\n");
  run = Run("plan", {"--from_torch_csv=" + csv, "--global_batch=12"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("12 samples do not divide into 8 micro-batches"));
  run = Run("simulate", {"--from_torch_csv=" + csv});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--global_batch=0 must be at least 1"));
  run = Run("simulate", {"--from_torch_csv=" + csv, "--plan=plan.pb", "--global_batch=16"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--plan and --from_torch_csv exclude each other"));
}

// torch 2.15 refuses a send without a wait.
TEST_F(PlanningToolsTest, EverySendThatIsWrittenIsWaitedFor) {
  const std::string csv = Path("schedule.csv");
  for (const char* waits : {"true", "false"}) {
    ASSERT_EQ(RunProgram("tools/plan", {"--schedule=zb-v", "--num_stages=3",
                                        "--num_micro_batches=6", "--to_torch_csv=" + csv,
                                        "--csv_messages", absl::StrCat("--csv_send_waits=", waits)})
                  .exit_code,
              0);
    const std::string text = *ReadFile(csv);
    int sends = 0, waited = 0;
    for (size_t at = text.find("SEND_"); at != std::string::npos; at = text.find("SEND_", at + 1)) {
      const bool is_wait = at >= 5 && text.compare(at - 5, 5, "WAIT_") == 0;
      ++(is_wait ? waited : sends);
    }
    EXPECT_EQ(sends, 2 * 6 * 4);  // each micro-batch over four boundaries, and back
    EXPECT_EQ(waited, std::string(waits) == "true" ? sends : 0);
  }
}

TEST_F(PlanningToolsTest, BadSchedulesSayWhere) {
  const std::string csv = Path("schedule.csv");
  ASSERT_TRUE(WriteFileAtomically(csv, "0F0,0Q0\n").ok());
  ProgramOutcome run = RunProgram("tools/plan", {"--from_torch_csv=" + csv});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "plan: " + csv + ": row 1 (rank 0), column 2 ('0Q0'): 'Q' is not a type of " +
                         "action\n");
  run = RunProgram("tools/plan", {"--schedule=chimera", "--num_stages=4", "--num_micro_batches=4",
                                  "--to_torch_csv=" + Path("none.csv")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("2 chains of one backbone"));
  EXPECT_FALSE(fs::exists(Path("none.csv")));
  run = RunProgram("tools/plan", {"--schedule=chimera", "--num_stages=3", "--num_micro_batches=4"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("chimera"));
  EXPECT_EQ(RunProgram("tools/plan", {"--schedule=chimera"}).exit_code, 2);
}

TEST_F(PlanningToolsTest, BadCommandLinesExitWithTwo) {
  const auto expect = [](const ProgramOutcome& run, const std::string& message) {
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.err, message + "; see --help\n");
    EXPECT_EQ(run.out, "");
  };
  expect(RunProgram("tools/plan", {}), "plan: --profile is missing");
  expect(Run("plan", {}), "plan: --global_batch=0 must be at least 1");
  expect(Run("plan", {"--num_stages=-1"}), "plan: --num_stages=-1 must be at least 0");
  expect(Run("plan", {"what"}), "plan: unexpected argument 'what'");
  expect(Run("simulate", {"--plan=x.pb", "--steps=2"}), "simulate: --steps=2 must be at least 3");
  expect(RunProgram("tools/trace", {"--output=a.svg"}),
         "trace: give either --trace or --plan, not both");
  expect(RunProgram("tools/trace", {"--trace=a.pb", "--output=a.png"}),
         "trace: --output=a.png must end in .svg, .html or .json");
  const ProgramOutcome unknown = RunProgram("tools/plan", {"--nosuch=1"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err, "plan: there is no flag --nosuch; see --help\n");
  expect(RunProgram("tools/trace", {"--out=a.png", "--trace=a.pb"}),
         "trace: --output=a.png must end in .svg, .html or .json");
}

TEST_F(PlanningToolsTest, BadFilesSayWhere) {
  const std::string out = Path("never.textproto");
  const auto plan = [&] { return Run("plan", {"--global_batch=16", "--output=" + out}); };
  const auto expect = [&](const std::string& message) {
    const ProgramOutcome run = plan();
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(out));
  };
  // Negative time.
  const ModelProfile good = profile_;
  profile_.mutable_components(profile_.components_size() - 1)
      ->mutable_layers(2)
      ->mutable_timings(0)
      ->set_forward_ns(-5);
  WriteInputs();
  expect(
      "profile.textproto: component 'backbone', layer 2 'layer2': forward_ns is -5, which is less "
      "than 0\n");
  // A field that does not exist.
  ASSERT_TRUE(WriteFileAtomically(Path("profile.textproto"), "model: \"m\"\nlayrs { }\n").ok());
  expect("profile.textproto: line 2, column ");
  expect("layrs");
  // No file.
  fs::remove(Path("profile.textproto"));
  expect("cannot open " + Path("profile.textproto") + ": No such file or directory");
  // A cluster without devices.
  profile_ = good;
  cluster_.set_num_nodes(0);
  WriteInputs();
  expect(
      "cluster.textproto: cluster: 0 nodes of 4 devices make no device; num_nodes and "
      "devices_per_node are at least 1\n");
  // Invalid binary, and an unknown ending.
  cluster_.set_num_nodes(1);
  WriteInputs();
  ASSERT_TRUE(WriteFileAtomically(Path("plan.pb"), "\xff\xff").ok());
  EXPECT_THAT(Run("simulate", {"--plan=" + Path("plan.pb")}).err,
              HasSubstr("2 bytes are not a dpipe.Plan in the wire format"));
  EXPECT_THAT(Run("simulate", {"--plan=" + Path("plan.txt")}).err,
              HasSubstr("plan.txt: the name must end in .textproto"));
  EXPECT_THAT(Run("plan", {"--global_batch=16", "--strategy=nix"}).err,
              HasSubstr("unknown strategy 'nix'; there are "));
}

TEST_F(PlanningToolsTest, BadPlansSayWhatIsWrong) {
  ASSERT_EQ(MakePlanFile("plan.textproto").exit_code, 0);
  const Plan good = ReadPlanFile("plan.textproto");
  Plan plan = good;
  Range* layers = plan.mutable_stages(1)->mutable_layers();
  layers->set_begin(layers->begin() - 1);
  ExpectRefused(plan, "stage 1: layers.begin is 1 and must be 2\n");
  plan = good;
  plan.set_num_devices(5);
  ExpectRefused(plan, "num_devices is 5");
  plan = good;
  plan.mutable_devices(2)->mutable_instructions()->RemoveLast();
  ExpectRefused(plan, "rank 2: there is no OPTIMIZER_STEP\n");
  // The plan belongs to another profile.
  profile_.mutable_components(profile_.components_size() - 1)
      ->mutable_layers(0)
      ->mutable_timings(0)
      ->set_forward_ns(3 * kNanosPerMilli);
  WriteInputs();
  ExpectRefused(good, "the plan was made for another profile (its fingerprint is " +
                          good.profile_fingerprint() + ", that of --profile is ");
  const ProgramOutcome what_if = Run("simulate", {"--plan=" + Path("plan.textproto"), "--what_if"});
  EXPECT_EQ(what_if.exit_code, 0) << what_if.err;
  EXPECT_THAT(what_if.out, Not(HasSubstr("before filling"))) << "that was of the other profile";
}

TEST_F(PlanningToolsTest, BadTracesSayWhatIsWrong) {
  ASSERT_EQ(MakePlanFile("plan.pb").exit_code, 0);
  ASSERT_EQ(
      Run("simulate", {"--plan=" + Path("plan.pb"), "--output=" + Path("trace.pb")}).exit_code, 0);
  Trace good;
  ASSERT_TRUE(good.ParseFromString(*ReadFile(Path("trace.pb"))));
  const auto expect = [this](const Trace& trace, const std::string& message) {
    ASSERT_TRUE(WriteFileAtomically(Path("bad.pb"), trace.SerializeAsString()).ok());
    const ProgramOutcome run =
        RunProgram("tools/trace", {"--trace=" + Path("bad.pb"), "--output=" + Path("never.svg")});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(run.err, "trace: " + Path("bad.pb") + ": " + message + "\n");
    EXPECT_FALSE(fs::exists(Path("never.svg")));
  };
  Trace trace = good;
  trace.mutable_events(3)->set_rank(9);
  expect(trace, "trace: an event names rank 9; the plan has no such rank");
  trace = good;
  trace.mutable_step_start_ns()->Set(1, -7);
  expect(trace,
         absl::StrCat("trace: step 1 starts at -7 ns, before step 0 at ", good.step_start_ns(0)));
  trace = good;
  trace.mutable_critical_path(0)->set_event(good.events_size());
  expect(trace, absl::StrCat("trace: the critical path names event ", good.events_size(), " of ",
                             good.events_size()));
  const auto draw = [this](const std::string& flag) {
    return RunProgram("tools/trace",
                      {"--trace=" + Path("trace.pb"), "--output=" + Path("never.svg"), flag});
  };
  EXPECT_THAT(draw("--first_step=50").err, HasSubstr("steps 50 to 51 are not in the trace"));
  EXPECT_THAT(draw("--compare=" + Path("no.pb")).err, HasSubstr("cannot open " + Path("no.pb")));
}

TEST_F(PlanningToolsTest, ExitsWithThreeIfNothingFits) {
  cluster_.set_memory_bytes_per_device(1000);
  WriteInputs();
  const ProgramOutcome run = Run("plan", {"--global_batch=16", "--output=" + Path("never.pb")});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, StartsWith("plan: "));
  EXPECT_FALSE(fs::exists(Path("never.pb")));
}

}  // namespace
}  // namespace dpipe

#include "bench/suite_runner/suite_results.h"

#include "bench/comparison/code_identity.h"
#include "bench/suite_runner/suite_tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SuiteResults TwoCases() {
  SuiteResults results;
  results.suite = "small";
  results.turns = "7";
  for (const char* id : {"cpu.a", "cpu.b"}) {
    SuiteCaseResult& one = results.cases.emplace_back();
    one.id = id;
    one.definition = "devices: 2";
    one.results.model = "tiny|sd";
    one.results.backend = "cpu";
    one.results.num_devices = 2;
    one.results.machine.cpu_model = "Some CPU";
    one.results.machine.num_logical_cores = 2;
    one.results.versions = {{"program", "1234"}, {"revision", "abcd"}};
    report::StrategyResult& result = one.results.results.emplace_back();
    result.strategy = "gpipe";
    result.images_per_second = {10, 11, 12};
    result.loss_check = {"one device", 3, 1e-7, 1e-4};
  }
  return results;
}

TEST(SuiteResultsTest, ReadBackUnchanged) {
  SuiteResults results = TwoCases();
  results.cases[1].state = CaseState::kSkipped;
  results.cases[1].reason = "no GPU";
  const std::string json = SuiteResultsToJson(results);
  const auto read = SuiteResultsFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(SuiteResultsToJson(*read), json);
  EXPECT_EQ(read->Find("cpu.b")->reason, "no GPU");
  EXPECT_EQ(read->Find("cpu.c"), nullptr);
}

TEST(SuiteResultsTest, LaterTurnsComeBehindTheOthers) {
  SuiteResults results = TwoCases(), more = TwoCases();
  more.cases[1].results.results[0].images_per_second = {7, 8};
  more.cases[1].results.results[0].step_ms = {1, 2, 3};
  more.cases[1].results.results[0].invalid = "the loss of step 3 is nan";
  ASSERT_TRUE(AppendTurns(more, &results).ok());
  const auto result = [&](int i) -> const report::StrategyResult& {
    return results.cases[i].results.results[0];
  };
  EXPECT_EQ(results.rounds, 2);
  EXPECT_EQ(SuiteResultsFromJson(SuiteResultsToJson(results))->rounds, 2);
  EXPECT_THAT(result(0).images_per_second, ElementsAre(10, 11, 12, 10, 11, 12));
  EXPECT_TRUE(result(0).counts());
  EXPECT_THAT(result(1).images_per_second, ElementsAre(10, 11, 12, 7, 8));
  EXPECT_THAT(result(1).step_ms, ElementsAre(1, 2, 3));
  EXPECT_EQ(result(1).invalid, "the loss of step 3 is nan");

  more.cases[0].results.results[0].skipped = "too large";
  EXPECT_THAT(std::string(AppendTurns(more, &results).message()),
              HasSubstr("cpu.a, gpipe: skipped '', then 'too large'"));
  more.cases[0].state = CaseState::kFailed;
  more.cases[0].reason = "no memory";
  EXPECT_THAT(std::string(AppendTurns(more, &results).message()),
              HasSubstr("cpu.a was measured, then failed: no memory"));
  more.cases.pop_back();
  EXPECT_THAT(std::string(AppendTurns(more, &results).message()), HasSubstr("2 cases, then 1"));
}

TEST(SuiteResultsTest, BadFilesAreNamed) {
  EXPECT_THAT(std::string(SuiteResultsFromJson("[").status().message()),
              HasSubstr("suite results: line 1, column"));
  EXPECT_THAT(std::string(SuiteResultsFromJson("{}").status().message()), HasSubstr("format"));
  std::string json = SuiteResultsToJson(TwoCases());
  json.replace(json.find("\"rounds\": 1"), 11, "\"rounds\": 0");
  EXPECT_THAT(std::string(SuiteResultsFromJson(json).status().message()), HasSubstr("rounds is 0"));
  json = SuiteResultsToJson(TwoCases());
  json.replace(json.find("\"measured\""), 10, "\"fastened\"");
  EXPECT_THAT(std::string(SuiteResultsFromJson(json).status().message()), HasSubstr("'fastened'"));
  json = SuiteResultsToJson(TwoCases());
  json.replace(json.find("\"strategy\""), 10, "\"strateg\"");
  EXPECT_THAT(std::string(SuiteResultsFromJson(json).status().message()),
              HasSubstr("case cpu.a: benchmark results: results[0].strategy"));
}

TEST(SuiteResultsTest, MixedOriginsAreNamed) {
  SuiteResults results = TwoCases();
  EXPECT_THAT(MixedOrigins(results), IsEmpty());
  results.cases[1].results.versions["program"] = "5678";
  EXPECT_THAT(MixedOrigins(results),
              ElementsAre("cpu.b was measured separately from cpu.a: program 1234 and 5678"));
  results.cases[1].results.machine.num_logical_cores = 4;
  EXPECT_THAT(MixedOrigins(results), ElementsAre(HasSubstr("cores 2 and 4")));
  EXPECT_THAT(SuiteMarkdown(results), HasSubstr("**Mixed runs:** cpu.b"));
}

TEST(SuiteResultsTest, TablesMarkInvalidResults) {
  SuiteResults results = TwoCases();
  results.cases[0].results.results[0].invalid = "the loss of step 1 is nan";
  results.cases[1].state = CaseState::kFailed;
  results.cases[1].reason = "out of memory";
  EXPECT_THAT(SuiteMarkdown(results),
              AllOf(HasSubstr("INVALID gpipe: the loss of step 1 is nan."),
                    HasSubstr("Failed: out of memory."), HasSubstr("## tiny|sd, 2 devices")));
  EXPECT_THAT(Failures(results),
              ElementsAre("cpu.a, gpipe: the loss of step 1 is nan", "cpu.b: out of memory"));
}

TEST(CodeIdentityTest, ThisProgramAndMachineAreDescribed) {
  report::BenchResults a, b;
  DescribeRun(&a);
  DescribeRun(&b);
  EXPECT_EQ(a.versions["program"].size(), 16u);
  EXPECT_EQ(CodeDifference(a, b), "");
  EXPECT_EQ(MachineDifference(a, b), "");
  b.versions["program"] = "other";
  b.machine.kernel = "other";
  EXPECT_THAT(CodeDifference(a, b), HasSubstr("program " + a.versions["program"] + " and other"));
  EXPECT_THAT(MachineDifference(a, b), HasSubstr("kernel"));
}

TEST(CodeIdentityTest, ClassesOfMachinesAreFileNames) {
  report::MachineInfo machine;
  machine.cpu_model = "Intel(R) Xeon(R) Processor @ 2.30GHz";
  machine.num_logical_cores = 2;
  machine.memory_bytes = int64_t{24} << 30;
  EXPECT_EQ(MachineClass(machine), "intel_r_xeon_r_processor_2_30ghz-2_cores-24_gib");
}

TEST(CodeIdentityTest, GpusMakeMachinesOfDifferentClasses) {
  report::BenchResults h100;
  h100.backend = "cuda";
  h100.machine.cpu_model = "Xeon";
  h100.machine.num_logical_cores = 16;
  h100.machine.memory_bytes = int64_t{125} << 30;
  h100.machine.gpus = {"NVIDIA H100 80GB HBM3"};
  report::BenchResults h200 = h100;
  h200.machine.gpus = {"NVIDIA H200"};
  EXPECT_EQ(MachineClass(h100.machine), "xeon-16_cores-nvidia_h100_80gb_hbm3");
  EXPECT_EQ(MachineClass(h200.machine), "xeon-16_cores-nvidia_h200");
  EXPECT_EQ(MachineDifference(h100, h200), "GPUs NVIDIA H100 80GB HBM3 and NVIDIA H200");

  report::BenchResults rebooted = h100;
  rebooted.machine.memory_bytes = int64_t{123} << 30;
  rebooted.machine.gpu_driver = "570.86.15";
  EXPECT_EQ(MachineClass(rebooted.machine), MachineClass(h100.machine));
  EXPECT_THAT(MachineDifference(h100, rebooted), HasSubstr("GPU driver unknown and 570.86.15"));

  // As in older files, which do not name GPUs.
  report::BenchResults old = h100;
  old.machine.gpus.clear();
  EXPECT_NE(MachineClass(old.machine), MachineClass(h100.machine));
  EXPECT_THAT(MachineDifference(old, h100), HasSubstr("GPUs unknown and NVIDIA H100"));

  // Results on the CPUs of the same machine need no GPU.
  old.backend = "cpu";
  EXPECT_EQ(MachineDifference(old, h100), "");
}

}  // namespace
}  // namespace dpipe::bench

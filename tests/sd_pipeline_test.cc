// Runs the main job as a user does: small but complete, and with bad input.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/files/file.h"
#include "core/proto/trace.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"
#include "tests/testlib/running_program.h"

namespace dpipe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testlib::ProgramOutcome;
using testlib::RunProgram;

std::string Folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::create_directories(folder);
  return folder;
}

// A user's own folder: images with .txt sidecars, created once.
std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/images";
  if (std::filesystem::exists(folder)) return folder;
  const ProgramOutcome made =
      RunProgram("data/make_dataset", {"--out=" + folder, "--count=32", "--seed=3"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  return folder;
}

ProgramOutcome Bench(std::vector<std::string> flags, const std::string& program = "sd_pipeline") {
  for (const char* flag : {"--backend=cpu", "--global_batch=4", "--steps=2", "--warmup_steps=1",
                           "--repeats=2", "--on_clusters=false"}) {
    flags.insert(flags.begin(), flag);
  }
  return RunProgram("bench/" + program, flags, /*deadline_s=*/240);
}

// Expects lines of tables, which have a rule of dashes below their headers, of at most 120
// characters.
void ExpectNarrowTables(const std::string& printed) {
  int num_tables = 0;
  bool in_table = false;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (absl::StartsWith(line, "-----")) ++num_tables, in_table = true;
    if (line.empty()) in_table = false;
    const auto is_character = [](char byte) { return (byte & 0xc0) != 0x80; };  // UTF-8
    if (in_table) {
      EXPECT_LE(std::count_if(line.begin(), line.end(), is_character), 120) << line;
    }
  }
  EXPECT_EQ(num_tables, 2) << "strategies, and clusters";
}

// JSON of protobuf has 64-bit integers as strings.
int64_t BytesOf(const json& text) { return std::stoll(text.get<std::string>()); }

// Checks that the trace of an executed pipeline has all that a simulated one has: a trace file, and
// in Perfetto's file receive tracks, an arrow per message, and memory.
void ExpectCompleteTrace(const std::string& path) {
  Trace trace;
  ASSERT_TRUE(trace.ParseFromString(*ReadFile(path + ".pb")));
  EXPECT_EQ(trace.source(), Trace::EXECUTED);
  std::map<std::string, int> phases, tracks, categories;
  const json file = json::parse(*ReadFile(path + ".json"));
  for (const json& event : file["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] == "M" && event["name"] == "thread_name") ++tracks[event["args"]["name"]];
    if (event["ph"] == "X") ++categories[event["cat"]];
  }
  EXPECT_EQ(tracks["receive"], 2) << "one per device";
  EXPECT_GT(categories["SEND"], 0);
  EXPECT_EQ(categories["RECV"], categories["SEND"]);
  EXPECT_EQ(phases["s"], categories["SEND"]) << "an arrow per message";
  EXPECT_EQ(phases["f"], categories["SEND"]);
  EXPECT_EQ(phases["C"], trace.memory_size());
  EXPECT_GT(phases["C"], 0);
}

TEST(SdPipelineTest, ComparesStrategiesAndWritesEverything) {
  const std::string out = Folder("out");
  const ProgramOutcome run =
      Bench({"--data=" + DataFolder(), "--out=" + out, "--json=" + out + "/copy.json",
             "--micro_batches=2",
             "--strategies=data_parallel,gpipe,1f1b,diffusionpipe,offline_cache,xpipe",
             "--devices=2", "--on_clusters"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* expected : {"Model:", "Data:", "Machine:", "Device:   2 CPU devices of ",
                               "(--backend=cpu)", "diffusionpipe", "Losses:", "report.html",
                               "offline_cache keeps ", "xpipe does not clip gradients",
                               "Not compared, because they change the mathematics: xpipe.",
                               "Simulated, nothing measured: stable_diffusion_v2_1_512"}) {
    EXPECT_THAT(run.out, HasSubstr(expected));
  }
  ExpectNarrowTables(run.out);
  EXPECT_THAT(run.out, HasSubstr("--explain also prints what the columns mean"));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("median over turns after the warm-up")));
  const json results = json::parse(*ReadFile(out + "/results.json"));
  EXPECT_EQ(results, json::parse(*ReadFile(out + "/copy.json")));
  const json& strategies = results["cases"][0]["strategies"];
  ASSERT_EQ(strategies.size(), 6u);
  std::set<std::vector<double>> pipeline_losses;
  for (const json& result : strategies) {
    const std::string strategy = result["strategy"];
    EXPECT_EQ(result["images_per_second"].size(), 2u) << strategy;
    EXPECT_GT(result["images_per_second"][0], 0.0) << strategy;
    EXPECT_GT(result["step_ms"][0], 0.0) << strategy;
    EXPECT_GT(result["step_ms_predicted"], 0.0) << strategy;
    EXPECT_GT(BytesOf(result["peak_memory_bytes"][0]), 1 << 20) << strategy;
    EXPECT_GT(BytesOf(result["peak_memory_bytes_predicted"][0]), 1 << 20) << strategy;
    const double bubble = result["bubble_ratio_measured"];
    EXPECT_TRUE(0 <= bubble && bubble < 1) << strategy << ": " << bubble;
    EXPECT_EQ(result["losses"].size(), 6u) << strategy;
    EXPECT_EQ(result.contains("storage"), strategy == "offline_cache") << strategy;
    if (strategy == "offline_cache") {
      // 2 repeats of 3 steps of 4 samples; an image's 16 x 16 moments of 8 numbers, a caption's 16
      // tokens of 64.
      EXPECT_GT(result["storage"]["num_images"], 20);
      EXPECT_GT(result["storage"]["num_captions"], 10);
      EXPECT_GT(BytesOf(result["storage"]["disk_bytes"]), 20 * 16 * 16 * 8 * 4);
      EXPECT_GT(result["storage"]["fill_ms"], 0.0);
    }
    if (strategy == "gpipe" || strategy == "1f1b" || strategy == "diffusionpipe") {
      pipeline_losses.insert(result["losses"].get<std::vector<double>>());
    }
    EXPECT_TRUE(
        json::parse(*ReadFile(out + "/trace." + strategy + ".json")).contains("traceEvents"));
  }
  EXPECT_EQ(pipeline_losses.size(), 1u) << "pipelines of the same micro-batches differ";
  EXPECT_THAT(*ReadFile(out + "/report.html"), HasSubstr("</html>"));
  ExpectCompleteTrace(out + "/trace.1f1b");
  const ProgramOutcome both = RunProgram(
      "tools/trace", {"--trace=" + out + "/trace.1f1b.pb", "--output=" + out + "/both.html",
                      "--compare=" + out + "/trace.diffusionpipe.pb"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  const std::string page = *ReadFile(out + "/both.html");
  EXPECT_THAT(page, HasSubstr("2 runs on one time axis"));
  EXPECT_THAT(page, HasSubstr("as fast as the first"));
  EXPECT_THAT(page, HasSubstr("memory after instructions"));
}

TEST(SdPipelineTest, ASignalEndsProfiling) {
  const std::string out = testlib::FreshPath("stopped_early");
  testlib::ProgramOptions options;
  options.program = "bench/sd_pipeline";
  options.arguments = {"--backend=cpu",     "--data=" + DataFolder(), "--out=" + out,
                       "--global_batch=64", "--strategies=1f1b",      "--devices=2"};
  options.out = testlib::FreshPath("stopped_early.out");
  options.err = testlib::FreshPath("stopped_early.err");
  options.deadline_s = 240;
  testlib::RunningProgram pipeline(options);
  ASSERT_TRUE(pipeline.AwaitError("profiling the model on this machine")) << *ReadFile(options.err);
  pipeline.Signal(SIGINT);
  EXPECT_TRUE(pipeline.AwaitError("SIGINT: ending after this turn")) << *ReadFile(options.err);
  pipeline.Wait();
  EXPECT_EQ(pipeline.exit_code(), 130);
  EXPECT_THAT(*ReadFile(options.err),
              HasSubstr("sd_pipeline: stopped by SIGINT before every strategy had taken a turn"));
  EXPECT_THAT(*ReadFile(options.err), ::testing::Not(HasSubstr("planned 1f1b")));
  EXPECT_FALSE(std::filesystem::exists(out)) << "nothing is written";
}

TEST(SdPipelineTest, HelpBeginsWithTheMostUsedFlags) {
  for (const char* program : {"bench/sd_pipeline", "bench/flux_pipeline"}) {
    const ProgramOutcome help = RunProgram(program, {"--help"});
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_THAT(help.out, HasSubstr("\n\nMost used:\n  --model=tiny_"));
  }
}

TEST(FluxPipelineTest, ComparesStrategiesOnTinyFlux) {
  const std::string out = Folder("flux");
  const ProgramOutcome run = Bench(
      {"--data=" + DataFolder(), "--out=" + out, "--micro_batches=2", "--devices=2",
       "--strategies=data_parallel,1f1b,diffusionpipe,offline_cache", "--on_clusters", "--explain"},
      "flux_pipeline");
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("\n  img/s         median over turns after the warm-up\n"));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("--explain")));
  EXPECT_THAT(run.out, HasSubstr("Simulated, nothing measured: flux_512"));
  const json results = json::parse(*ReadFile(out + "/results.json"));
  EXPECT_EQ(results["cases"][0]["model"], "tiny_flux");
  const json& strategies = results["cases"][0]["strategies"];
  ASSERT_EQ(strategies.size(), 4u);
  for (const json& result : strategies) {
    EXPECT_GT(result["images_per_second"][0], 0.0) << result["strategy"];
    EXPECT_EQ(result["losses"].size(), 6u) << result["strategy"];
  }
  EXPECT_EQ(strategies[1]["losses"], strategies[2]["losses"]) << "of the same micro-batches";
}

// Equally many devices in one process or one per process give the same bits and the same table.
TEST(SdPipelineTest, ProcessesTrainAsThreadsDo) {
  json losses[2];
  for (const bool apart : {false, true}) {
    const std::string out = Folder(apart ? "apart" : "together");
    const ProgramOutcome run =
        Bench({apart ? "--nproc=2" : "--devices=2", "--data=" + DataFolder(), "--out=" + out,
               "--micro_batches=2", "--strategies=1f1b,diffusionpipe,offline_cache"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    for (const char* expected : {"Model:", "img/s", "offline_cache keeps ", "report.html"}) {
      EXPECT_THAT(run.out, HasSubstr(expected));
    }
    const json results = json::parse(*ReadFile(out + "/results.json"));
    EXPECT_EQ(results["cases"][0]["num_devices"], 2);
    ASSERT_EQ(results["cases"][0]["strategies"].size(), 3u);
    for (const json& result : results["cases"][0]["strategies"]) {
      // Its micro-batches are given. offline_cache has those of its own search.
      if (result["strategy"] != "offline_cache") losses[apart].push_back(result["losses"]);
      EXPECT_EQ(result["losses"].size(), 6u);
      EXPECT_EQ(result["peak_memory_bytes"].size(), 2u);
      EXPECT_GT(result["step_ms"][0], 0.0);
      EXPECT_GT(result["step_ms_predicted"], 0.0);
      EXPECT_GT(result["bubble_ratio_measured"], 0.0);
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(SlowNetworkTest, ComparesStrategiesBySpeedOfTheLink) {
  const std::string out = Folder("slow_network");
  const ProgramOutcome run = RunProgram(
      "bench/slow_network",
      {"--data=" + DataFolder(), "--out=" + out, "--speeds=200mbit,unshaped", "--global_batch=4",
       "--micro_batches=2", "--steps=2", "--repeats=2", "--strategies=data_parallel,diffusionpipe"},
      /*deadline_s=*/240);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  if (absl::StartsWith(run.out, "Skipped: ")) GTEST_SKIP() << run.out;
  EXPECT_THAT(run.out, HasSubstr("200 Mb/s: diffusionpipe is "));
  EXPECT_THAT(run.out, HasSubstr("unshaped: images/s"));
  const json results = json::parse(*ReadFile(out + "/results.json"));
  ASSERT_EQ(results["cases"].size(), 2u);
  EXPECT_EQ(results["cases"][0]["id"], "tiny_sd.200mbit");
  EXPECT_EQ(results["cases"][1]["flags"]["link"], "unshaped");
  EXPECT_EQ(results["cases"][1]["flags"]["out"], out) << "the user's, not that of one speed";
  EXPECT_EQ(results["cases"][1]["command_line"].get<std::string>().find("--link"),
            std::string::npos);
  // The network does not change what is computed.
  EXPECT_EQ(results["cases"][0]["strategies"][1]["losses"],
            results["cases"][1]["strategies"][1]["losses"]);
  EXPECT_THAT(*ReadFile(out + "/tables.md"), HasSubstr("| data_parallel"));
  EXPECT_THAT(*ReadFile(out + "/throughput.svg"), HasSubstr("</svg>"));
}

struct BadCase {
  const char* name;
  std::vector<std::string> flags;
  const char* message;
  int exit_code = 2;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadFlagsTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadFlagsTest, OneClearSentenceAndAnExitStatus) {
  std::vector<std::string> flags = GetParam().flags;
  flags.push_back("--out=" + Folder("never"));
  if (GetParam().name != std::string("MissingData")) flags.push_back("--data=" + DataFolder());
  const ProgramOutcome run = Bench(flags);
  EXPECT_EQ(run.exit_code, GetParam().exit_code) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr(GetParam().message));
  EXPECT_FALSE(std::filesystem::exists(Folder("never") + "/results.json"));
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadFlagsTest,
    ::testing::Values(BadCase{"UnknownFlag",
                              {"--stepz=3"},
                              "sd_pipeline: there is no flag --stepz; did you mean --steps?"},
                      BadCase{"UnknownModel", {"--model=tiny_sb"}, "unknown --model=tiny_sb"},
                      BadCase{"UnknownBackend", {"--backend=tpu"}, "unknown --backend=tpu"},
                      BadCase{"UnknownDType", {"--dtype=fp8"}, "unknown --dtype=fp8"},
                      BadCase{"UnknownStrategy", {"--strategies=gpipe,magic"}, "magic"},
                      BadCase{"MisspeltStrategy", {"--strategies=gpip"}, "did you mean gpipe?"},
                      BadCase{"NoSteps", {"--steps=0"}, "--steps=0 must be at least 1"},
                      BadCase{"NoProcesses", {"--nproc=0"}, "--nproc=0 must be at least 1"},
                      BadCase{
                          "TooManyDevices", {"--devices=1000"}, "requested 1000 CPU devices", 1},
                      BadCase{"BatchDoesNotDivide",
                              {"--global_batch=5", "--micro_batches=2", "--strategies=gpipe",
                               "--frozen_quantum=1"},
                              "a pipeline's 5 samples do not divide into 2 micro-batches",
                              1},
                      BadCase{"BatchDoesNotDivideOverDevices",
                              {"--global_batch=7", "--devices=2", "--strategies=data_parallel"},
                              "strategy data_parallel on 2 devices: a global batch of 7 samples "
                              "does not divide over 2 pipelines; change --global_batch=7",
                              1},
                      BadCase{"NoSteadyStep",
                              {"--steps=1"},
                              "--warmup_steps=1 and --steps=1 must be at least 3 with"},
                      BadCase{"MissingData", {"--data=/no/such/folder"}, "/no/such/folder", 1},
                      BadCase{"StrayArgument", {"gpipe"}, "unexpected argument 'gpipe'"}),
    [](const ::testing::TestParamInfo<BadCase>& info) { return std::string(info.param.name); });

TEST(SdPipelineTest, CorruptImagesAreSkippedUntilTheyAreTooMany) {
  const std::string folder = Folder("all_broken");
  for (int i = 0; i < 8; ++i) {
    const std::string name = folder + "/" + std::to_string(i);
    ASSERT_TRUE(WriteFileAtomically(name + ".png", "not an image").ok());
    ASSERT_TRUE(WriteFileAtomically(name + ".txt", "a red circle").ok());
  }
  const ProgramOutcome run = Bench({"--data=" + folder, "--out=" + Folder("never")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr(folder));
}

// Model folders whose weights end too early, or claim more than the file contains.
TEST(SdPipelineTest, TruncatedAndHostileWeightsAreNamed) {
  const std::string folder = Folder("model");
  std::filesystem::copy(
      "data/tiny_sd", folder,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string weights = folder + "/vae/diffusion_pytorch_model.safetensors";
  const std::string whole = *ReadFile(weights);
  std::filesystem::remove(weights);
  auto expect_refused = [&](const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(weights, content).ok());
    const ProgramOutcome run =
        Bench({"--model=" + folder, "--data=" + DataFolder(), "--out=" + Folder("never")});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("diffusion_pytorch_model.safetensors"));
  };
  expect_refused(whole.substr(0, whole.size() / 2));
  expect_refused("");
  std::string hostile = whole;
  for (int i = 0; i < 8; ++i) hostile[i] = '\x7f';  // a header of 2^63 bytes
  expect_refused(hostile);
}

}  // namespace
}  // namespace dpipe

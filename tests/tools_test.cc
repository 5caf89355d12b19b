// Trains, samples and scores as a user does: small but complete, and with bad input.
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "data/images/image_decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using testlib::FreshPath;
using testlib::ProgramOutcome;
using testlib::RunProgram;

constexpr int kSteps = 6;

// A user's own folder, created once.
const std::string& DataFolder() {
  static const auto* const kFolder = [] {
    const std::string folder = FreshPath("images");
    const ProgramOutcome made =
        RunProgram("data/make_dataset", {"--out=" + folder, "--count=32", "--seed=3"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return new std::string(folder);
  }();
  return *kFolder;
}

std::vector<std::string> TrainFlags(const std::string& out) {
  return {"--data=" + DataFolder(),
          "--out=" + out,
          "--global_batch=4",
          "--micro_batches=2",
          "--frozen_quantum=2",
          "--devices=2",
          "--warmup=2",
          "--steps=" + std::to_string(kSteps),
          "--minutes=0",
          "--sample_steps=2"};
}

ProgramOutcome Train(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> flags = TrainFlags(out);
  flags.insert(flags.end(), more.begin(), more.end());
  return RunProgram("tools/train", flags);
}

// Returns the lines about steps.
std::vector<json> ReadLog(const std::string& path) {
  std::vector<json> lines;
  std::istringstream text(ReadFile(path).value_or(""));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("loss")) lines.push_back(parsed);
  }
  return lines;
}

// One trained model for the tests that only read it.
const std::string& TrainedModel() {
  static const auto* const kFolder = [] {
    const std::string out = FreshPath("trained");
    const ProgramOutcome run = Train(out, {"--save_every=4", "--sample_every=3"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    for (const char* expected : {"Plan:", "diffusionpipe", "Trained 6 steps, 24 images",
                                 "Model:", "Samples:", "bazel run //tools:sample -- --model="}) {
      EXPECT_THAT(run.out, HasSubstr(expected));
    }
    return new std::string(out);
  }();
  return *kFolder;
}

TEST(ToolsTest, OpenMpThreadsSpinOnlyBriefly) {
  setenv("OMP_DISPLAY_ENV", "VERBOSE", 1);
  const ProgramOutcome outcome = RunProgram("tools/train", {"--help"});
  unsetenv("OMP_DISPLAY_ENV");
  EXPECT_THAT(outcome.err, HasSubstr("GOMP_SPINCOUNT = '5000'"));
}

TEST(ToolsTest, TrainingLeavesAModelALogAndSamples) {
  const std::string out = TrainedModel();
  for (const char* file :
       {"model_index.json", "unet/config.json", "vae/config.json", "text_encoder/model.safetensors",
        "tokenizer/vocab.json", "scheduler/scheduler_config.json", "training.json",
        "unet/diffusion_pytorch_model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out + "/" + file)) << file;
  }
  EXPECT_FALSE(fs::exists(out + ".partial"));
  const json record = json::parse(*ReadFile(out + "/training.json"));
  EXPECT_EQ(record["steps"], kSteps);
  EXPECT_EQ(record["strategy"], "diffusionpipe");
  const std::vector<json> log = ReadLog(out + ".log.jsonl");
  ASSERT_EQ(log.size(), static_cast<size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_GT(log[i]["loss"], 0.0);
  }
  EXPECT_LT(log[5]["lr"], log[2]["lr"]) << "cosine decay to the last step";
  EXPECT_THAT(*ReadFile(out + ".config.textproto"), HasSubstr("global_batch: 4"));
  for (const char* grid : {"step_000003.png", "step_000006.png"}) {
    const auto image = ReadImage(out + ".samples/" + grid);
    EXPECT_TRUE(image.ok()) << image.status();
  }
}

// Strategies differ in speed only. Neither pauses nor their absence change the trained model.
TEST(ToolsTest, StrategiesTrainTheSameModel) {
  const std::string out = FreshPath("gpipe");
  const ProgramOutcome run = Train(out, {"--strategy=gpipe", "--samples=false"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string weights = "/unet/diffusion_pytorch_model.safetensors";
  EXPECT_EQ(*ReadFile(out + weights), *ReadFile(TrainedModel() + weights));
  // The comparison can fail.
  const std::string other = FreshPath("other_seed");
  const ProgramOutcome cached =
      Train(other, {"--strategy=offline_cache", "--seed=2", "--samples=false"});
  ASSERT_EQ(cached.exit_code, 0) << cached.err;
  EXPECT_THAT(cached.out, HasSubstr("Cache:    ")) << cached.err;
  EXPECT_NE(*ReadFile(other + weights), *ReadFile(TrainedModel() + weights));
}

// A config file, held-out data, and every log.
TEST(ToolsTest, EvaluatesHeldOutDataAndWritesLogs) {
  const std::string out = FreshPath("evaluated");
  const std::string config = FreshPath("run.textproto");
  ASSERT_TRUE(WriteFileAtomically(config,
                                  "evaluation { share: 0.2 samples: 5 quantiles: 0.2 quantiles: "
                                  "0.8 every: 2 weights: \"both\" }\n"
                                  "optimizer { moments: \"int8\" } output { mllog: true }")
                  .ok());
  const ProgramOutcome run =
      Train(out, {"--config=" + config, "--samples=false", "--steps=4", "--save_every=0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::vector<json> evaluations;
  std::istringstream text(*ReadFile(out + ".log.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("eval_loss")) evaluations.push_back(parsed);
  }
  ASSERT_EQ(evaluations.size(), 4u);  // after steps 2 and 4, averaged and trained weights
  EXPECT_EQ(evaluations[2]["step"], 4);
  EXPECT_EQ(evaluations[2]["weights"], "average");
  EXPECT_EQ(evaluations[3]["weights"], "trained");
  EXPECT_EQ(evaluations[3]["quantiles"], json({0.2, 0.8}));
  EXPECT_NEAR(evaluations[3]["eval_loss"].get<double>(),
              (evaluations[3]["eval_losses"][0].get<double>() +
               evaluations[3]["eval_losses"][1].get<double>()) /
                  2,
              1e-9);
  EXPECT_THAT(*ReadFile(out + ".mllog"), HasSubstr("\"status\":\"success\""));
  EXPECT_FALSE(fs::is_empty(out + ".tensorboard"));
}

TEST(ToolsTest, ContinuesFromACheckpointInHalfPrecision) {
  const std::string out = FreshPath("continued");
  const ProgramOutcome run =
      Train(out, {"--model=" + TrainedModel(), "--init=checkpoint", "--steps=1", "--store=fp16",
                  "--dtype=bf16", "--prediction_type=v_prediction", "--samples=false"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string weights = "/unet/diffusion_pytorch_model.safetensors";
  EXPECT_NEAR(static_cast<double>(fs::file_size(out + weights)) /
                  static_cast<double>(fs::file_size(TrainedModel() + weights)),
              0.5, 0.02);
  EXPECT_THAT(*ReadFile(out + "/scheduler/scheduler_config.json"), HasSubstr("v_prediction"));
}

TEST(ToolsTest, SignalSavesTheModelAndStops) {
  const std::string out = FreshPath("interrupted");
  std::string command = "tools/train --steps=100000 --samples=false";
  for (const std::string& flag : TrainFlags(out)) {
    if (flag.rfind("--steps", 0) != 0) command += " '" + flag + "'";
  }
  // Sends the signal when the first step is in the log.
  command += " & until grep -qs step '" + out + ".log.jsonl'; do kill -0 $! || exit 99; done;" +
             " kill -TERM $!; wait $!";
  const ProgramOutcome run = RunProgram("/bin/bash", {"-c", command});
  ASSERT_EQ(run.exit_code, 128 + 15) << run.err;
  EXPECT_THAT(run.err, HasSubstr("SIGTERM: saving and ending after this step"));
  EXPECT_THAT(run.out, HasSubstr("Stopped by SIGTERM at step "));
  EXPECT_THAT(run.out, HasSubstr("Resume:   bazel run //tools:train -- "));
  const json record = json::parse(*ReadFile(out + "/training.json"));
  EXPECT_GE(record["steps"], 1);
  EXPECT_EQ(static_cast<size_t>(record["steps"]), ReadLog(out + ".log.jsonl").size());
}

// Returns a shell command that runs a new process: it resumes at the end of TrainedModel with
// `flags`.
std::string ContinueCommand(const std::string& out, const std::vector<std::string>& flags) {
  fs::remove_all(out + ".checkpoints");
  fs::copy(TrainedModel() + ".checkpoints", out + ".checkpoints", fs::copy_options::recursive);
  std::vector<std::string> all = TrainFlags(out);
  all.insert(all.end(), {"--resume=auto", "--allow_config_change"});
  all.insert(all.end(), flags.begin(), flags.end());
  std::string command = "tools/train";
  for (const std::string& flag : all) command += " '" + flag + "'";
  return command;
}

// A grid of samples that would take minutes.
TEST(ToolsTest, SignalStopsSampling) {
  const std::string out = FreshPath("stopped_drawing");
  std::string command = ContinueCommand(
      out, {"--steps=100000", "--sample_every=7", "--sample_steps=900", "--output.store=fp16"});
  command += " 2> '" + out + ".err' & until grep -qs drawing '" + out + ".err'; do kill -0 $! || " +
             "exit 99; done; kill -HUP $!; wait $!";
  const ProgramOutcome run = RunProgram("/bin/bash", {"-c", command});
  const std::string err = ReadFile(out + ".err").value_or("");
  ASSERT_EQ(run.exit_code, 128 + 1) << err;
  EXPECT_THAT(err, HasSubstr("[train] drawing samples after step 7 · "));
  EXPECT_THAT(err, HasSubstr("SIGHUP: saving and ending after this step"));
  EXPECT_THAT(run.out, HasSubstr("Stopped by SIGHUP at step 7 of 100000"));
  EXPECT_EQ(json::parse(*ReadFile(out + "/training.json"))["steps"], 7);
  EXPECT_TRUE(fs::exists(out + ".checkpoints/step_00000007"));
  EXPECT_FALSE(fs::exists(out + ".samples/step_000007.png"));
}

TEST(ToolsTest, ContinuesWhenNobodyReadsItsOutput) {
  const std::string out = FreshPath("unread");
  const std::string command = ContinueCommand(out, {"--steps=8", "--samples=false"});
  const ProgramOutcome run =
      RunProgram("/bin/bash", {"-c", command + " | head -1; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(*ReadFile(out + "/training.json"))["steps"], 8);
}

TEST(ToolsTest, NewRunSetsAFinishedOneAsideAsAWhole) {
  const std::string out = FreshPath("again");
  const ProgramOutcome first =
      RunProgram("/bin/bash", {"-c", ContinueCommand(out, {"--steps=7", "--samples=false"})});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string model = *ReadFile(out + "/training.json");
  const std::string log = *ReadFile(out + ".log.jsonl");
  // A run that fails to start leaves everything in place.
  EXPECT_EQ(Train(out, {"--data=/no/such/folder"}).exit_code, 1);
  EXPECT_TRUE(fs::exists(out + ".checkpoints/step_00000007"));
  EXPECT_FALSE(fs::exists(out + ".aside"));

  const ProgramOutcome second = Train(out, {"--steps=1", "--samples=false"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("the run that was in " + out + " is now " + out + ".aside"));
  EXPECT_EQ(ReadFile(out + ".aside/training.json").value_or(""), model);
  EXPECT_EQ(ReadFile(out + ".aside.log.jsonl").value_or(""), log);
  EXPECT_EQ(ReadLog(out + ".log.jsonl").size(), 1u);
  // Event files of two runs in one folder would be displayed as one curve.
  for (const std::string& folder : {out + ".tensorboard", out + ".aside.tensorboard"}) {
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << folder;
  }
  const ProgramOutcome back = Train(
      out + ".aside", {"--steps=7", "--samples=false", "--resume=auto", "--allow_config_change"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("Resumed:  " + out + ".aside.checkpoints/step_00000007"));
}

TEST(ToolsTest, AFailedStartLeavesNothing) {
  const std::string out = FreshPath("failed_start");
  EXPECT_EQ(Train(out, {"--data=/no/such/folder"}).exit_code, 1);
  for (const auto& entry : fs::directory_iterator(::testing::TempDir())) {
    EXPECT_NE(entry.path().filename().string().rfind("failed_start", 0), 0u) << entry.path();
  }
}

TEST(ToolsTest, SamplesDependOnPromptAndSeedOnly) {
  auto draw = [](const std::string& name, const std::vector<std::string>& flags) {
    const std::string path = FreshPath(name);
    std::vector<std::string> all = {"--model=" + TrainedModel(), "--steps=2", "--out=" + path,
                                    "--zoom=1"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ProgramOutcome run = RunProgram("tools/sample", all);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr(path));
    return ReadImage(path).value();
  };
  const std::string prompts = "--prompt=a red circle|a blue star|a green cross";
  const Image three = draw("three.png", {prompts, "--columns=3"});
  EXPECT_EQ(three.width, 3 * (64 + 4) + 4);
  EXPECT_EQ(three.height, 64 + 2 * 4);
  const Image again = draw("again.png", {prompts, "--columns=3", "--devices=1"});
  EXPECT_EQ(three.pixels, again.pixels);
  const Image other = draw("other.png", {prompts, "--columns=3", "--seed=2"});
  EXPECT_NE(three.pixels, other.pixels);
}

TEST(ToolsTest, ScoresAreWrittenAndRealImagesScoreHighest) {
  const std::string path = FreshPath("scores.json");
  const ProgramOutcome run = RunProgram(
      "tools/score",
      {"--model=" + TrainedModel(), "--steps=2", "--count=4", "--untrained", "--json=" + path});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("real images through the VAE"));
  const json scores = json::parse(*ReadFile(path))["scores"];
  ASSERT_EQ(scores.size(), 6u);  // three subjects, one or two objects
  for (const json& score : scores) {
    EXPECT_EQ(score["images"], 4);
    if (score["subject"] == "real images through the VAE") {
      EXPECT_EQ(score["both"], 1.0);
    }
  }
}

struct BadCase {
  const char* name;
  const char* program;
  std::vector<std::string> flags;
  const char* message;
  int exit_code = 1;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadToolFlagsTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadToolFlagsTest, OneClearSentenceAndAnExitStatus) {
  const BadCase& bad = GetParam();
  const std::string out = FreshPath("never");
  std::vector<std::string> flags = {"--out=" + out};
  if (bad.program == std::string("tools/train")) flags = TrainFlags(out);
  if (bad.program == std::string("tools/sample")) flags = {"--out=" + out + ".png"};
  if (bad.program == std::string("tools/score")) flags.clear();
  flags.insert(flags.end(), bad.flags.begin(), bad.flags.end());
  const ProgramOutcome run = RunProgram(bad.program, flags);
  EXPECT_EQ(run.exit_code, bad.exit_code) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr(bad.message));
  EXPECT_FALSE(fs::exists(out));
  // The test's own folder has a longer name than users' folders.
  for (const auto line :
       absl::StrSplit(absl::StrReplaceAll(run.err, {{::testing::TempDir(), "/"}}), '\n')) {
    EXPECT_LE(line.size(), 300u) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadToolFlagsTest,
    ::testing::Values(
        BadCase{"UnknownFlag",
                "tools/train",
                {"--stepz=3"},
                "no flag --stepz; did you mean --steps?",
                2},
        BadCase{"UnknownDType",
                "tools/train",
                {"--dtype=fp8"},
                "--dtype=fp8: it must be one of fp32, bf16",
                2},
        BadCase{"UnknownStrategy", "tools/train", {"--strategy=magic"}, "magic", 2},
        BadCase{
            "LongValue", "tools/train", {"--dtype=" + std::string(9000, 'x')}, "one of fp32", 2},
        BadCase{
            "LongModel", "tools/train", {"--model=" + std::string(9000, 'x')}, "unknown --model="},
        BadCase{"ModelOfTheHub",
                "tools/train",
                {"--model=runwayml/stable-diffusion-v1-5"},
                "huggingface-cli download runwayml/stable-diffusion-v1-5 --local-dir"},
        BadCase{"LoraOfTheHub",
                "tools/sample",
                {"--prompt=x", "--lora=user/cat-lora"},
                "huggingface-cli download user/cat-lora --local-dir"},
        BadCase{
            "DataByUrl", "tools/train", {"--data=https://e.org/x.tar"}, "nothing is downloaded"},
        BadCase{"OutputInData",
                "tools/train",
                {"--data=/usr", "--out=/usr/share/run"},
                "--out=/usr/share/run is inside --data=/usr: the output would become data"},
        BadCase{"OutputOfOthersInData",
                "tools/train",
                {"--evaluation.data=/usr", "--log=/usr/log"},
                "--log=/usr/log is inside --evaluation.data=/usr"},
        BadCase{
            "UnknownSchedule", "tools/train", {"--lr_schedule=steps"}, "--lr_schedule=steps", 2},
        BadCase{
            "UnknownPrediction", "tools/train", {"--prediction_type=v"}, "--prediction_type=v:", 2},
        BadCase{"MissingData", "tools/train", {"--data=/no/such/folder"}, "/no/such/folder"},
        BadCase{"MissingModel", "tools/train", {"--model=/no/such/model"}, "/no/such/model"},
        BadCase{"AspectBelowOne",
                "tools/train",
                {"--data.max_aspect=0.5"},
                "--data.max_aspect=0.5: it must be a number, at least 1 and at most 4",
                2},
        BadCase{"PatchesOfACascade",
                "tools/train",
                {"--model=tiny_cdm", "--data.patch_share=0.5"},
                "takes no patch coordinates"},
        BadCase{"TooManyDevices", "tools/train", {"--devices=1000"}, "1000 CPU devices"},
        BadCase{"BatchDoesNotDivide", "tools/train", {"--global_batch=5"}, "--global_batch=5", 2},
        BadCase{"Endless", "tools/train", {"--steps=0"}, "--steps=0 and --minutes=0", 2},
        BadCase{"SampleWithoutPrompt", "tools/sample", {}, "--prompt", 2},
        BadCase{"SampleIntoAFolder",
                "tools/sample",
                {"--prompt=a red circle", "--out=" + ::testing::TempDir()},
                "is a folder; expected the name of a .png file",
                2},
        BadCase{"SampleAsJpeg",
                "tools/sample",
                {"--prompt=a red circle", "--out=a.jpg"},
                "--out=a.jpg must end in .png",
                2},
        BadCase{"NegativeGuidance",
                "tools/sample",
                {"--prompt=a red circle", "--guidance=-3"},
                "--guidance=-3 must be at least 0",
                2},
        BadCase{"UnknownSampler",
                "tools/sample",
                {"--prompt=a red circle", "--sampler=heun"},
                "unknown sampler 'heun'; there are folder (the scheduler of the model's folder), "
                "ddim, ",
                2},
        BadCase{"NoControlNet",
                "tools/sample",
                {"--prompt=a red circle", "--model=tiny_sd", "--control=a.png"},
                "has no ControlNet"},
        BadCase{"NoSampleSteps",
                "tools/sample",
                {"--prompt=a red circle", "--steps=0"},
                "--steps=0 must be at least 1",
                2},
        BadCase{"SampleTypo",
                "tools/sample",
                {"--promt=a red circle"},
                "sample: there is no flag --promt; did you mean --prompt?",
                2},
        BadCase{"SampleOfMissingModel",
                "tools/sample",
                {"--prompt=a red circle", "--model=/no/such/model"},
                "/no/such/model"},
        BadCase{"TooManySampleSteps",
                "tools/sample",
                {"--prompt=a red circle", "--steps=5000"},
                "5000"},
        BadCase{"ScoreOfNothing", "tools/score", {"--count=0"}, "--count=0", 2},
        BadCase{"NotAMultipleOfTheQuantum",
                "tools/train",
                {"--global_batch=6", "--micro_batches=0", "--frozen_quantum=4"},
                "6 samples are not a multiple of the 4 samples that frozen components are profiled "
                "and run on at a time (--frozen_quantum)"},
        BadCase{"StrayArgument", "tools/score", {"now"}, "unexpected argument 'now'", 2}),
    [](const ::testing::TestParamInfo<BadCase>& info) { return std::string(info.param.name); });

// The default frozen quantum suits any batch. It does not depend on a saved run.
TEST(ToolsTest, SmallBatchesTrainByDefault) {
  for (const std::string batch : {"1", "3"}) {
    const std::string out = FreshPath("batch_of_" + batch);
    const ProgramOutcome run = RunProgram(
        "tools/train", {"--data=" + DataFolder(), "--out=" + out, "--global_batch=" + batch,
                        "--devices=2", "--steps=1", "--samples=false"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("Trained 1 step, " + batch + " image"));
  }
}

TEST(ToolsTest, ARunOfAnotherFrozenQuantumIsResumed) {
  const std::string out = FreshPath("of_quantum_4");
  const std::vector<std::string> flags = {
      "--data=" + DataFolder(), "--out=" + out, "--global_batch=4", "--devices=2", "--minutes=0",
      "--samples=false"};
  std::vector<std::string> first = flags, second = flags;
  first.insert(first.end(), {"--frozen_quantum=4", "--steps=2"});
  ASSERT_EQ(RunProgram("tools/train", first).exit_code, 0);
  second.insert(second.end(), {"--steps=3", "--resume=auto", "--allow_config_change"});
  const ProgramOutcome resumed = RunProgram("tools/train", second);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("after 2 steps before: 3 in total"));
}

TEST(ToolsTest, TruncatedPromptIsReported) {
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += "red circle ";
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xc3\xa9";
  const ProgramOutcome run =
      RunProgram("tools/sample",
                 {"--model=" + TrainedModel(), "--prompt=" + prompt + "|a blue star|a" + accents,
                  "--steps=1", "--output=" + FreshPath("long.png")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out,
              HasSubstr("Warning:  the prompt 'red circle red circle red circle red cir...' "
                        "has "));
  EXPECT_THAT(run.out, HasSubstr(" tokens; the model reads only the first "));
  // Byte 40 is inside a character.
  EXPECT_THAT(run.out, HasSubstr("the prompt 'a" + accents.substr(0, 38) + "...' has "));
}

TEST(ToolsTest, UsersFolderIsNotOverwritten) {
  const std::string out = FreshPath("mine");
  ASSERT_TRUE(MakeFolder(out).ok());
  ASSERT_TRUE(WriteFileAtomically(out + "/notes.txt", "mine").ok());
  const ProgramOutcome run = Train(out, {});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("was not made by training"));
  EXPECT_EQ(*ReadFile(out + "/notes.txt"), "mine");
}

TEST(ToolsTest, InputModelIsNotOverwritten) {
  const std::string folder = FreshPath("continued_in_place");
  fs::copy(TrainedModel(), folder, fs::copy_options::recursive);
  const std::string weights = folder + "/unet/diffusion_pytorch_model.safetensors";
  const std::string before = *ReadFile(weights);
  const ProgramOutcome run = Train(folder, {"--model=" + folder + "/", "--init=checkpoint"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("will not save to " + folder + ", which would replace " + folder));
  EXPECT_EQ(*ReadFile(weights), before);
}

TEST(ToolsTest, CorruptAndMissingWeightsAreNamed) {
  const std::string folder = FreshPath("corrupt");
  fs::copy(TrainedModel(), folder, fs::copy_options::recursive);
  const std::string weights = folder + "/unet/diffusion_pytorch_model.safetensors";
  const std::string whole = *ReadFile(weights);
  auto sample = [&] {
    return RunProgram("tools/sample", {"--model=" + folder, "--prompt=a red circle",
                                       "--out=" + FreshPath("never.png")});
  };
  for (const std::string& content : {whole.substr(0, whole.size() / 2), std::string()}) {
    ASSERT_TRUE(WriteFileAtomically(weights, content).ok());
    const ProgramOutcome run = sample();
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr(weights));
    EXPECT_EQ(Train(FreshPath("never"), {"--model=" + folder, "--init=checkpoint"}).exit_code, 1);
  }
  fs::remove(weights);
  const ProgramOutcome run = sample();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("bazel run //tools:train"));
}

}  // namespace
}  // namespace dpipe

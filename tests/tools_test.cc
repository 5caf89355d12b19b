// Trains, samples and scores as a user does: small but complete.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "data/folders/folder_dataset.h"
#include "data/images/bitmap_text.h"
#include "data/images/image_decode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"
#include "tests/testlib/running_program.h"
#include "tests/testlib/small_training.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using testlib::DataFolder;
using testlib::FreshPath;
using testlib::kSteps;
using testlib::ProgramOutcome;
using testlib::ReadLog;
using testlib::RunProgram;
using testlib::Train;
using testlib::TrainedModel;
using testlib::TrainFlags;

TEST(ToolsTest, OpenMpThreadsSpinOnlyBriefly) {
  setenv("OMP_DISPLAY_ENV", "VERBOSE", 1);
  const ProgramOutcome outcome = RunProgram("tools/train", {"--help"});
  unsetenv("OMP_DISPLAY_ENV");
  EXPECT_THAT(outcome.err, HasSubstr("GOMP_SPINCOUNT = '5000'"));
}

// Naming a flag that does not exist would abort the program.
TEST(ToolsTest, HelpBeginsWithTheMostUsedFlags) {
  for (const char* tool : {"tools/train", "tools/sample"}) {
    const ProgramOutcome help = RunProgram(tool, {"--help"});
    EXPECT_EQ(help.exit_code, 0) << help.err;
    EXPECT_THAT(help.out, HasSubstr("\n\nMost used:\n  --model"));
  }
  EXPECT_EQ(RunProgram("tools/score", {"--help"}).exit_code, 0) << "has few";
}

TEST(ToolsTest, TrainingLeavesAModelALogAndSamples) {
  const std::string out = TrainedModel();
  for (const char* file :
       {"model_index.json", "unet/config.json", "vae/config.json", "text_encoder/model.safetensors",
        "tokenizer/vocab.json", "scheduler/scheduler_config.json", "training.json",
        "unet/diffusion_pytorch_model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out + "/model/" + file)) << file;
  }
  EXPECT_FALSE(fs::exists(out + "/model.partial"));
  const json record = json::parse(*ReadFile(out + "/model/training.json"));
  EXPECT_EQ(record["steps"], kSteps);
  EXPECT_EQ(record["strategy"], "diffusionpipe");
  const std::vector<json> log = ReadLog(out + "/log.jsonl");
  ASSERT_EQ(log.size(), static_cast<size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_GT(log[i]["loss"], 0.0);
    EXPECT_GT(log[i]["grad_norm"], 0.0);
    EXPECT_GT(log[i]["step_s"], 0.0);
    EXPECT_LE(log[i]["step_s"], log[i]["elapsed_s"]);
    const auto peaks = log[i]["peak_memory_bytes"].get<std::vector<int64_t>>();
    ASSERT_EQ(peaks.size(), 2u) << "one per device";
    EXPECT_GT(std::min(peaks[0], peaks[1]), 1 << 20);
    if (i > 0) {
      EXPECT_GE(peaks[0], log[i - 1]["peak_memory_bytes"][0]) << "so far";
    }
    EXPECT_FALSE(log[i].contains("share_of_peak")) << "a CPU's is not known";
  }
  EXPECT_EQ(log[0]["mean_loss"], log[0]["loss"]);
  EXPECT_LT(log[5]["lr"], log[2]["lr"]) << "cosine decay to the last step";
  EXPECT_THAT(*ReadFile(out + "/config.textproto"), HasSubstr("global_batch: 4"));
  for (const char* grid : {"step_000003.png", "step_000006.png"}) {
    const auto image = ReadImage(out + "/samples/" + grid);
    EXPECT_TRUE(image.ok()) << image.status();
  }
}

// The last grid is what the saved model draws for the first 16 captions of the user's folder.
TEST(ToolsTest, GridsShowTheUsersCaptions) {
  const auto data = FolderDataset::Open(DataFolder());
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<std::string> captions;
  for (int i = 0; captions.size() < 16; ++i) {
    ASSERT_LT(i, data->size());
    const std::string caption = data->LoadCaptions(i)->front();
    const bool is_new = std::find(captions.begin(), captions.end(), caption) == captions.end();
    if (is_new) captions.push_back(caption);
  }
  const std::string path = FreshPath("captions.png");
  const ProgramOutcome run =
      RunProgram("tools/sample", {"--model=" + TrainedModel(), "--out=" + path, "--columns=4",
                                  "--prompt=" + absl::StrJoin(captions, "|"), "--steps=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(*ReadFile(path), *ReadFile(TrainedModel() + "/samples/step_000006.png"));
}

// Strategies differ in speed only. Neither pauses nor their absence change the trained model.
TEST(ToolsTest, StrategiesTrainTheSameModel) {
  const std::string out = FreshPath("gpipe");
  const ProgramOutcome run = Train(out, {"--strategy=gpipe", "--samples=false"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string weights = "/model/unet/diffusion_pytorch_model.safetensors";
  EXPECT_EQ(*ReadFile(out + weights), *ReadFile(TrainedModel() + weights));
  // The norm is that of all stages' gradients.
  const std::vector<json> log = ReadLog(out + "/log.jsonl");
  const std::vector<json> other_log = ReadLog(TrainedModel() + "/log.jsonl");
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(log[i]["grad_norm"], other_log[i]["grad_norm"]) << i;
  // The comparison can fail.
  const std::string other = FreshPath("other_seed");
  const ProgramOutcome cached =
      Train(other, {"--strategy=offline_cache", "--seed=2", "--samples=false"});
  ASSERT_EQ(cached.exit_code, 0) << cached.err;
  EXPECT_THAT(cached.out, HasSubstr("Cache:    ")) << cached.err;
  EXPECT_NE(*ReadFile(other + weights), *ReadFile(TrainedModel() + weights));
}

// While the model is timed, before the first step.
TEST(ToolsTest, ASignalEndsProfiling) {
  const std::string out = FreshPath("stopped_early");
  testlib::ProgramOptions options;
  options.program = "tools/train";
  options.arguments = TrainFlags(out);
  options.arguments.insert(options.arguments.end(), {"--global_batch=64", "--micro_batches=0"});
  options.out = FreshPath("stopped_early.out");
  options.err = FreshPath("stopped_early.err");
  options.deadline_s = 240;
  testlib::RunningProgram train(options);
  ASSERT_TRUE(train.AwaitError("profiling the model on this machine")) << *ReadFile(options.err);
  train.Signal(SIGINT);
  EXPECT_TRUE(
      train.AwaitError("SIGINT: ending before the first step; a second signal ends at once"))
      << *ReadFile(options.err);
  train.Wait();
  EXPECT_EQ(train.exit_code(), 128 + SIGINT);
  EXPECT_THAT(*ReadFile(options.err),
              HasSubstr("train: SIGINT has ended the run before its first step"));
  EXPECT_THAT(*ReadFile(options.out), ::testing::Not(HasSubstr("Plan:")));
  EXPECT_FALSE(fs::exists(out)) << "nothing is written";
}

// The norm is known without clipping, too: before the first clipped step nothing differs.
TEST(ToolsTest, TheLogHasTheGradientNormWithoutClipping) {
  const std::string out = FreshPath("not_clipped");
  const std::string same_plan = TrainedModel();
  const ProgramOutcome run = Train(out, {"--max_grad_norm=0", "--steps=1", "--samples=false",
                                         "--profile=" + same_plan + "/profile.textproto",
                                         "--cluster=" + same_plan + "/cluster.textproto"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<json> log = ReadLog(out + "/log.jsonl");
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0]["loss"], ReadLog(TrainedModel() + "/log.jsonl")[0]["loss"]);
  EXPECT_EQ(log[0]["grad_norm"], ReadLog(TrainedModel() + "/log.jsonl")[0]["grad_norm"]);
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
  std::istringstream text(*ReadFile(out + "/log.jsonl"));
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
  EXPECT_THAT(*ReadFile(out + "/mllog.txt"), HasSubstr("\"status\":\"success\""));
  EXPECT_FALSE(fs::is_empty(out + "/tensorboard"));
}

TEST(ToolsTest, ContinuesFromACheckpointInHalfPrecision) {
  const std::string out = FreshPath("continued");
  const ProgramOutcome run =
      Train(out, {"--model=" + TrainedModel(), "--init=checkpoint", "--steps=1", "--store=fp16",
                  "--dtype=bf16", "--prediction_type=v_prediction", "--samples=false"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string weights = "/model/unet/diffusion_pytorch_model.safetensors";
  EXPECT_NEAR(static_cast<double>(fs::file_size(out + weights)) /
                  static_cast<double>(fs::file_size(TrainedModel() + weights)),
              0.5, 0.02);
  EXPECT_THAT(*ReadFile(out + "/model/scheduler/scheduler_config.json"), HasSubstr("v_prediction"));
}

TEST(ToolsTest, SignalSavesTheModelAndStops) {
  const std::string out = FreshPath("interrupted");
  std::string command = "tools/train --steps=100000 --samples=false";
  for (const std::string& flag : TrainFlags(out)) {
    if (flag.rfind("--steps", 0) != 0) command += " '" + flag + "'";
  }
  // Sends the signal when the first step is in the log.
  command += " & until grep -qs step '" + out + "/log.jsonl'; do kill -0 $! || exit 99; done;" +
             " kill -TERM $!; wait $!";
  const ProgramOutcome run = RunProgram("/bin/bash", {"-c", command});
  ASSERT_EQ(run.exit_code, 128 + 15) << run.err;
  EXPECT_THAT(run.err, HasSubstr("SIGTERM: saving and ending after this step"));
  EXPECT_THAT(run.out, HasSubstr("Stopped by SIGTERM at step "));
  EXPECT_THAT(run.out, HasSubstr("Resume:   bazel run //tools:train -- "));
  const json record = json::parse(*ReadFile(out + "/model/training.json"));
  EXPECT_GE(record["steps"], 1);
  EXPECT_EQ(static_cast<size_t>(record["steps"]), ReadLog(out + "/log.jsonl").size());
}

// Returns a shell command that runs a new process: it resumes at the end of TrainedModel with
// `flags`.
std::string ContinueCommand(const std::string& out, const std::vector<std::string>& flags) {
  fs::remove_all(out + "/checkpoints");
  fs::create_directories(out);
  fs::copy(TrainedModel() + "/checkpoints", out + "/checkpoints", fs::copy_options::recursive);
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
  EXPECT_EQ(json::parse(*ReadFile(out + "/model/training.json"))["steps"], 7);
  EXPECT_TRUE(fs::exists(out + "/checkpoints/step_00000007"));
  EXPECT_FALSE(fs::exists(out + "/samples/step_000007.png"));
}

TEST(ToolsTest, ContinuesWhenNobodyReadsItsOutput) {
  const std::string out = FreshPath("unread");
  const std::string command = ContinueCommand(out, {"--steps=8", "--samples=false"});
  const ProgramOutcome run =
      RunProgram("/bin/bash", {"-c", command + " | head -1; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(*ReadFile(out + "/model/training.json"))["steps"], 8);
}

TEST(ToolsTest, NewRunSetsAFinishedOneAsideAsAWhole) {
  const std::string out = FreshPath("again");
  const ProgramOutcome first =
      RunProgram("/bin/bash", {"-c", ContinueCommand(out, {"--steps=7", "--samples=false"})});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string model = *ReadFile(out + "/model/training.json");
  const std::string log = *ReadFile(out + "/log.jsonl");
  // A run that fails to start leaves everything in place.
  EXPECT_EQ(Train(out, {"--data=/no/such/folder"}).exit_code, 1);
  EXPECT_TRUE(fs::exists(out + "/checkpoints/step_00000007"));
  EXPECT_FALSE(fs::exists(out + ".aside"));

  const ProgramOutcome second = Train(out, {"--steps=1", "--samples=false"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("the run that was in " + out + " is now " + out + ".aside"));
  EXPECT_EQ(ReadFile(out + ".aside/model/training.json").value_or(""), model);
  EXPECT_EQ(ReadFile(out + ".aside/log.jsonl").value_or(""), log);
  EXPECT_EQ(ReadLog(out + "/log.jsonl").size(), 1u);
  // Event files of two runs in one folder would be displayed as one curve.
  for (const std::string& folder : {out + "/tensorboard", out + ".aside/tensorboard"}) {
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << folder;
  }
  const ProgramOutcome back = Train(
      out + ".aside", {"--steps=7", "--samples=false", "--resume=auto", "--allow_config_change"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("Resumed:  " + out + ".aside/checkpoints/step_00000007"));
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
  // Each prompt is below its image, in two lines of at most ten letters.
  EXPECT_EQ(three.height, 64 + 2 * kLinePitch + 2 * 4);
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
  const std::vector<std::string> flags = {"--data=" + DataFolder(), "--out=" + out, "--backend=cpu",
                                          "--global_batch=4",       "--devices=2",  "--minutes=0",
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
  EXPECT_THAT(run.out, HasSubstr("\nDevice:   "));
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
  const std::string weights = folder + "/model/unet/diffusion_pytorch_model.safetensors";
  const std::string before = *ReadFile(weights);
  const ProgramOutcome run = Train(folder, {"--model=" + folder + "/", "--init=checkpoint"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              HasSubstr("will not save to " + folder + "/model, which would replace " + folder));
  EXPECT_EQ(*ReadFile(weights), before);
}

TEST(ToolsTest, CorruptAndMissingWeightsAreNamed) {
  const std::string folder = FreshPath("corrupt");
  fs::copy(TrainedModel(), folder, fs::copy_options::recursive);
  const std::string weights = folder + "/model/unet/diffusion_pytorch_model.safetensors";
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

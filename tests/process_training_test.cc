// Runs //tools:train on several processes, as a user does. The trained model, images and files are
// those of threads of one process, and a run resumes with more or fewer processes. A stop signal to
// any process stops all, and processes that do not belong together say so.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/process_job.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testlib::FreshPath;
using testlib::ProgramOutcome;
using testlib::RunProgram;

constexpr char kWeights[] = "/model/unet/diffusion_pytorch_model.safetensors";

const std::string& DataFolder() {
  static const auto* const kFolder = [] {
    const std::string folder = FreshPath("images");
    const ProgramOutcome made = RunProgram("data/make_dataset", {"--out=" + folder, "--count=32"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return new std::string(folder);
  }();
  return *kFolder;
}

std::vector<std::string> Flags(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--data=" + DataFolder(),
                                    "--out=" + out,
                                    "--backend=cpu",
                                    "--global_batch=2",
                                    "--micro_batches=2",
                                    "--frozen_quantum=1",
                                    "--warmup=2",
                                    "--steps=4",
                                    "--minutes=0",
                                    "--samples=false",
                                    "--output.tensorboard=false"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

ProgramOutcome Train(const std::string& out, const std::vector<std::string>& more) {
  return RunProgram("tools/train", Flags(out, more), /*deadline_s=*/240);
}

// Returns the values of these keys in the log, as they are written there.
std::vector<std::string> LoggedOf(const std::string& out, const std::vector<std::string>& keys) {
  std::vector<std::string> losses;
  std::istringstream text(ReadFile(out + "/log.jsonl").value_or(""));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    for (const std::string& key : keys) {
      if (!parsed.contains(key)) continue;
      losses.push_back(absl::StrCat(key, " ", parsed["step"].dump(), " ", parsed[key].dump()));
    }
  }
  return losses;
}

// Returns all losses in the log, of training and of held-out data.
std::vector<std::string> LossesOf(const std::string& out) {
  return LoggedOf(out, {"loss", "eval_loss"});
}

void ExpectSameFile(const std::string& a, const std::string& b) {
  ASSERT_TRUE(fs::exists(a) && fs::exists(b)) << a << ", " << b;
  EXPECT_EQ(*ReadFile(a), *ReadFile(b)) << a << ", " << b;
}

TEST(ProcessTrainingTest, ProcessesTrainAsThreadsDo) {
  const std::vector<std::string> more = {
      "--evaluation.share=0.2", "--evaluation.samples=5", "--evaluation.quantiles=0.2",
      "--evaluation.every=2",   "--sample_every=2",       "--sample_steps=2",
      "--save_every=2"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> all = more;
    all.push_back(flag);
    return all;
  };
  const std::string threads = FreshPath("threads"), processes = FreshPath("processes");
  const ProgramOutcome alone = Train(threads, with("--devices=2"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const ProgramOutcome together = Train(processes, with("--nproc=2"));
  ASSERT_EQ(together.exit_code, 0) << together.out << together.err;

  const std::vector<std::string> losses = LossesOf(threads);
  EXPECT_EQ(losses.size(), 4u + 2u);
  EXPECT_EQ(LossesOf(processes), losses);
  EXPECT_EQ(LoggedOf(threads, {"grad_norm"}).size(), 4u);
  EXPECT_EQ(LoggedOf(processes, {"grad_norm"}), LoggedOf(threads, {"grad_norm"}));
  ExpectSameFile(threads + kWeights, processes + kWeights);
  ExpectSameFile(threads + "/samples/step_000002.png", processes + "/samples/step_000002.png");
  std::istringstream log(ReadFile(processes + "/log.jsonl").value_or(""));
  std::string first_step;
  std::getline(log, first_step);
  const auto peaks = json::parse(first_step)["peak_memory_bytes"].get<std::vector<int64_t>>();
  ASSERT_EQ(peaks.size(), 2u) << "one per process's device";
  EXPECT_GT(std::min(peaks[0], peaks[1]), 1 << 20);
  // Only one of them prints.
  EXPECT_THAT(together.out, AllOf(HasSubstr("[0] Plan:"), HasSubstr("in each of 2 processes"),
                                  HasSubstr("[0] Trained 4 steps"), Not(HasSubstr("[1]"))));
}

// By one plan, the checkpoint's: with a strategy whose sums depend on it.
TEST(ProcessTrainingTest, RunContinuesWithMoreOrFewerProcesses) {
  const std::vector<std::string> more = {"--strategy=zero3", "--micro_batches=1",
                                         "--checkpoint_every=2"};
  const auto with = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = more;
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  };
  const std::string out = FreshPath("resumed");
  ProgramOutcome run = Train(out, with({"--nproc=2"}));
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const std::string whole = *ReadFile(out + kWeights);
  const std::vector<std::string> losses = LossesOf(out);
  const std::string middle = "--resume=" + out + "/checkpoints/step_00000002";
  for (const char* flag : {"--devices=2", "--nproc=2"}) {
    run = Train(out, with({flag, middle}));
    ASSERT_EQ(run.exit_code, 0) << flag << run.out << run.err;
    EXPECT_THAT(run.out, HasSubstr("Trained 2 steps, 4 images"));
    EXPECT_EQ(LossesOf(out), losses) << flag;
    EXPECT_TRUE(*ReadFile(out + kWeights) == whole) << flag;
  }
}

// Two processes, each started separately.
std::unique_ptr<testlib::ProcessJob> MakePair(const std::string& out) {
  testlib::ProcessJobOptions options;
  options.program = "tools/train";
  options.flags = Flags(out, {});
  options.consoles = out + ".console";
  options.by_environment = true;
  options.deadline_s = 240;
  auto job = testlib::ProcessJob::Create(options);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

// The processes have created a secret in their home folder. No other file of the run contains it.
void ExpectSecretIsNotExposed(const std::string& run) {
  const std::string out = fs::path(run).lexically_normal().string();  // as paths are found
  const std::string home = out + ".console.home";
  const std::string secret = ReadFile(home + "/.dpipe/job_secret").value_or("").substr(0, 64);
  ASSERT_EQ(secret.size(), 64u);
  int num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(out).parent_path())) {
    const std::string path = entry.path().string();
    if (path.rfind(out, 0) != 0 || path.rfind(home, 0) == 0 || !entry.is_regular_file()) continue;
    ++num_files;
    EXPECT_EQ(ReadFile(path).value_or("").find(secret), std::string::npos) << path;
  }
  EXPECT_GE(num_files, 5) << "consoles, log, configuration, checkpoint";
}

TEST(ProcessTrainingTest, FileOrSignalToAnyProcessMakesAllSaveAndStop) {
  const std::string out = FreshPath("asked");
  const auto pair = MakePair(out);
  for (int i : {0, 1}) pair->Start(i, {"--steps=100000", "--checkpoint_every=0"});
  const auto wait_while = [&](const std::function<bool()>& waits) {
    while (waits() && !pair->program(0).Poll()) usleep(10000);
  };
  const auto checkpoints = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out + "/checkpoints")) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("step_", 0) == 0 && name.find('.') == std::string::npos) names.push_back(name);
    }
    return names;
  };
  wait_while([&] { return !fs::exists(out + "/log.jsonl"); });
  ASSERT_TRUE(WriteFileAtomically(out + "/checkpoints/SAVE_NOW", "").ok());
  wait_while([&] { return checkpoints().empty(); });
  pair->program(1).Signal(SIGTERM);
  EXPECT_EQ(pair->ExitCode(0), 128 + SIGTERM) << pair->Output(0);
  EXPECT_EQ(pair->ExitCode(1), 0) << pair->Output(1);
  EXPECT_THAT(pair->Output(0), HasSubstr("Stopped by SIGTERM to rank 1 (pid "));
  EXPECT_EQ(pair->Output(1), "");
  ExpectSecretIsNotExposed(out);
  // Of the last trained step.
  EXPECT_THAT(checkpoints(),
              Contains(absl::StrFormat("step_%08d", static_cast<int>(LossesOf(out).size()))));
}

TEST(ProcessTrainingTest, ProcessesOfDifferentRunsAreRefused) {
  const auto pair = MakePair(FreshPath("different"));
  pair->Start(0, {"--lr=0.001"});
  pair->Start(1, {"--lr=0.002"});
  for (int i : {0, 1}) {
    EXPECT_EQ(pair->ExitCode(i), 1);
    EXPECT_THAT(pair->Output(i),
                AllOf(HasSubstr("rank 1 (pid "),
                      HasSubstr("was started for another run: --optimizer.lr=0.002 here, but "
                                "0.001 at rank 0 (pid ")));
  }
}

// An error of the first process reaches the others, the launcher, and its caller.
TEST(ProcessTrainingTest, ErrorEndsAllProcessesWithItsMessage) {
  const ProgramOutcome run =
      Train(FreshPath("refused"), {"--nproc=2", "--model=" + FreshPath("no_such_model")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("[0] train: "), HasSubstr("no_such_model"),
                             HasSubstr("[1] train: "), HasSubstr("launcher: process ")));
}

}  // namespace
}  // namespace dpipe

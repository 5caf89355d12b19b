// Runs //tools:train --check as a user does. It says what a run would do, refuses what a run would
// refuse, and leaves the disk unchanged. Other tests give a run's plan inputs to other runs, and
// check that a resumed run keeps the best model of all its parts.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testlib::ProgramOutcome;
using testlib::RunProgram;

constexpr char kWeights[] = "/unet/diffusion_pytorch_model.safetensors";

class TrainCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramOutcome made =
        RunProgram("data/make_dataset", {"--out=" + scratch_.File("images"), "--count=8"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  std::string Out() const { return scratch_.File("runs/model"); }

  ProgramOutcome Train(const std::vector<std::string>& more) const {
    std::vector<std::string> flags = {"--data=" + scratch_.File("images"),
                                      "--out=" + Out(),
                                      "--backend=cpu",
                                      "--global_batch=2",
                                      "--devices=2",
                                      "--micro_batches=2",
                                      "--max_micro_batch=1",
                                      "--frozen_quantum=1",
                                      "--warmup=2",
                                      "--steps=4",
                                      "--minutes=0",
                                      "--samples=false",
                                      "--output.tensorboard=false"};
    flags.insert(flags.end(), more.begin(), more.end());
    return RunProgram("tools/train", flags, /*deadline_s=*/120);
  }

  // Returns every file with its time, and every folder.
  std::map<std::string, int64_t> Disk() const {
    std::map<std::string, int64_t> disk;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      disk[entry.path()] =
          entry.is_directory() ? 0 : entry.last_write_time().time_since_epoch().count();
    }
    return disk;
  }

  const ScratchFolder scratch_;
};

// The default takes the CPU where there is no GPU, says why, and ignores settings of GPUs.
TEST_F(TrainCheckTest, TheDefaultBackendTakesTheCpuWhereThereIsNoGpu) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  const ProgramOutcome check = Train({"--backend=auto", "--check"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("NVIDIA_TF32_OVERRIDE");
  ASSERT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_THAT(check.out, HasSubstr("Device:   2 CPU devices of "));
  EXPECT_THAT(check.out, HasSubstr(" (no GPU can be used: "));
  const ProgramOutcome all = RunProgram("tools/train", {"--print_config"});
  EXPECT_THAT(all.out, HasSubstr("backend: \"auto\""));
}

TEST_F(TrainCheckTest, ReportsWhatARunWouldDoAndWritesNothing) {
  const auto before = Disk();
  const ProgramOutcome check = Train({"--check"});
  ASSERT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("Plan:     diffusionpipe, 2 stages"),
                    HasSubstr("Steps:    4 steps of 2 images, 1.00 epochs\n"),
                    HasSubstr("Memory:   predicted peak: device 0 "), HasSubstr("Disk:  "),
                    HasSubstr(absl::StrCat(scratch_.path(), " has ")),
                    HasSubstr(absl::StrCat("          ", Out(), "/log.jsonl\n")),
                    HasSubstr("Checked:  the run can start")));
  EXPECT_EQ(Disk(), before);
}

// Returns the line of `output` with this beginning.
std::string LineOf(const std::string& output, const std::string& beginning) {
  const size_t begin = output.find(beginning);
  return begin == std::string::npos ? "" : output.substr(begin, output.find('\n', begin) - begin);
}

TEST_F(TrainCheckTest, ProfileAndClusterOfARunGiveOthersItsPlan) {
  const ProgramOutcome first = Train({"--steps=2"});
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const std::vector<std::string> basis = {"--profile=" + Out() + "/profile.textproto",
                                          "--cluster=" + Out() + "/cluster.textproto"};
  const auto with_basis = [&basis](std::vector<std::string> flags) {
    flags.insert(flags.end(), basis.begin(), basis.end());
    return flags;
  };
  const auto before = Disk();
  ProgramOutcome check = Train(with_basis({"--check", "--lr=1e-4", "--resume=never"}));
  ASSERT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_EQ(LineOf(check.out, "Plan: "), LineOf(first.out, "Plan: "));
  EXPECT_THAT(check.out, HasSubstr("Aside:    earlier run to set aside: " + Out()));
  EXPECT_THAT(check.err, Not(HasSubstr("profiling")));
  check = Train(with_basis({"--check", "--global_batch=4", "--max_micro_batch=0"}));
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err,
              HasSubstr(Out() + "/profile.textproto: unet was timed with local batches "
                                "of 1 in the stored file, but here plans may have 1, 2"));
  check = Train(with_basis({"--check", "--devices=1"}));
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err,
              AnyOf(HasSubstr("the device is "), HasSubstr("the number of devices is 2")));
  EXPECT_EQ(Disk(), before);

  const std::string other = scratch_.File("other/model");
  const ProgramOutcome second = Train(with_basis({"--steps=1", "--out=" + other}));
  ASSERT_EQ(second.exit_code, 0) << second.out << second.err;
  for (const char* file : {"/profile.textproto", "/cluster.textproto"}) {
    EXPECT_EQ(ReadFile(other + file).value_or("none"), *ReadFile(Out() + file)) << file;
  }
  EXPECT_EQ(*ReadFile(other + "/checkpoints/step_00000001/plan.textproto"),
            *ReadFile(Out() + "/checkpoints/step_00000002/plan.textproto"));
}

// Returns the held-out loss of each evaluation in the log, by step.
std::map<int64_t, double> HeldOutLosses(const std::string& out) {
  std::map<int64_t, double> losses;
  std::istringstream text(ReadFile(out + "/log.jsonl").value_or(""));
  for (std::string line; std::getline(text, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("eval_loss")) losses[parsed["step"]] = parsed["eval_loss"];
  }
  return losses;
}

std::pair<int64_t, double> Lowest(const std::map<int64_t, double>& losses) {
  return *std::min_element(losses.begin(), losses.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

TEST_F(TrainCheckTest, BestModelIsKeptOverAllPartsOfARun) {
  // This learning rate soon makes the model worse.
  const std::vector<std::string> flags = {"--evaluation.keep_best",
                                          "--evaluation.share=0.4",
                                          "--evaluation.every=1",
                                          "--evaluation.samples=2",
                                          "--evaluation.quantiles=0.5",
                                          "--ema=0",
                                          "--lr=0.5",
                                          "--lr_schedule=constant",
                                          "--allow_config_change"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    const ProgramOutcome run = Train(more);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    return run;
  };
  const auto best = [&] {
    const json record = json::parse(ReadFile(Out() + "/best/training.json").value_or("{}"));
    return std::pair<int64_t, double>(record["steps"], record["held_out"]["loss"]);
  };
  train({"--steps=3"});
  std::map<int64_t, double> losses = HeldOutLosses(Out());
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(best(), Lowest(losses));
  const std::string kept = *ReadFile(Out() + "/best" + kWeights);
  const auto newest = ReadFile(Out() + "/model" + kWeights);
  EXPECT_EQ(kept == *newest, Lowest(losses).first == 3);

  const ProgramOutcome more =
      train({"--steps=5", "--resume=auto", "--profile=" + Out() + "/profile.textproto",
             "--cluster=" + Out() + "/cluster.textproto"});
  losses = HeldOutLosses(Out());
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_EQ(best(), Lowest(losses));
  EXPECT_LT(Lowest(losses).first, 5) << "otherwise this test proves little";
  EXPECT_EQ(*ReadFile(Out() + "/best" + kWeights) == kept, Lowest(losses).first <= 3);
  EXPECT_THAT(more.out, HasSubstr("Best:     " + Out() + "/best, of step "));
  EXPECT_FALSE(fs::exists(Out() + "/best.partial"));
}

// Only files that are not images: a check and a run both notice before the first step.
TEST_F(TrainCheckTest, RefusesImagesThatCannotBeDecoded) {
  const std::string folder = scratch_.File("broken");
  ASSERT_TRUE(MakeFolder(folder).ok());
  for (const char* stem : {"/a", "/b"}) {
    ASSERT_TRUE(WriteFileAtomically(folder + stem + ".png", "no image").ok());
    ASSERT_TRUE(WriteFileAtomically(folder + stem + ".txt", "a circle").ok());
  }
  const ProgramOutcome check = Train({"--check", "--data=" + folder});
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err, HasSubstr("none of its 2 images can be decoded; one of them: "));
  const ProgramOutcome run = Train({"--data=" + folder});
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_EQ(LineOf(run.err, "train: "), LineOf(check.err, "train: "));
  EXPECT_FALSE(fs::exists(Out() + "/model"));
}

TEST_F(TrainCheckTest, RefusesWhatARunWouldRefuse) {
  ASSERT_TRUE(MakeFolder(Out()).ok());
  ASSERT_TRUE(WriteFileAtomically(scratch_.File("file"), "").ok());
  const auto before = Disk();
  ProgramOutcome check = Train({"--check", "--log=" + scratch_.File("file/log")});
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err, HasSubstr(scratch_.File("file") + " is not a folder"));
  check = Train({"--check", "--resume=" + scratch_.File("none")});
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err, HasSubstr("there is no folder " + scratch_.File("none")));
  check = Train({"--check", "--samples", "--sample_steps=3000"});
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_THAT(check.err,
              HasSubstr("--samples.*: sampling in 3000 steps; the schedule allows 1 to"));
  check = Train({"--check", "--data.max_corrupt=0", "--data=" + scratch_.File("runs")});
  EXPECT_EQ(check.exit_code, 1) << check.out;
  EXPECT_EQ(Disk(), before);
}

}  // namespace
}  // namespace dpipe

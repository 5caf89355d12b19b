// Failures alongside training lose no step: //tools:train with pictures, logs or checkpoints that
// cannot be written.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testlib::FreshPath;
using testlib::ProgramOutcome;
using testlib::RunProgram;

constexpr char kModel[] = "/model/unet/diffusion_pytorch_model.safetensors";

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
                                    "--sample_steps=2",
                                    "--output.tensorboard=false"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

ProgramOutcome Train(const std::string& out, const std::vector<std::string>& more) {
  return RunProgram("tools/train", Flags(out, more), /*deadline_s=*/240);
}

std::string Checkpoint(const std::string& out, int step) {
  return absl::StrCat(out, "/checkpoints/step_0000000", step, "/MANIFEST");
}

void Touch(const std::string& path) {
  ASSERT_TRUE(MakeParentFolder(path).ok());
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
}

TEST(KeepWorkTest, PicturesThatCannotBeDrawnAreAWarning) {
  const std::string out = FreshPath("pictures");
  fs::remove_all(out);
  ASSERT_TRUE(MakeFolder(out).ok());
  fs::create_symlink("/dev/null", out + "/samples");
  const ProgramOutcome run = Train(out, {"--sample_every=2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("Warning:  the sample grid of step 2: "),
                             HasSubstr("Warning:  the sample grid of step 4: "),
                             HasSubstr("Trained 4 steps")));
  EXPECT_TRUE(fs::exists(Checkpoint(out, 4)));
}

// An intermediate model that cannot be renamed to its place, with errors set to stop the run.
TEST(KeepWorkTest, ErrorDuringTrainingEndsTheRunWithACheckpoint) {
  const std::string out = FreshPath("model");
  ASSERT_TRUE(MakeFolder(out + "/model.partial").ok());
  const std::string train =
      absl::StrJoin(Flags(out, {"--save_every=2", "--samples=false", "--checkpoint_every=0",
                                "--checkpoints.on_error=stop"}),
                    " ");
  // A folder that is a mount point cannot be renamed.
  const ProgramOutcome run =
      RunProgram("/usr/bin/unshare",
                 {"--mount", "/bin/sh", "-c",
                  absl::StrCat("mount -t tmpfs none ", out, "/model.partial && echo mounted && ",
                               "exec tools/train ", train)},
                 /*deadline_s=*/240);
  if (!absl::StrContains(run.out, "mounted")) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr(out + "/model.partial"));
  EXPECT_TRUE(fs::exists(Checkpoint(out, 2))) << run.out << run.err;
}

TEST(KeepWorkTest, UnwritableLogCostsNoStep) {
  const std::string out = FreshPath("log");
  fs::remove_all(out);
  ASSERT_TRUE(MakeFolder(out).ok());
  fs::create_symlink("/dev/full", out + "/mllog.txt");
  const std::vector<std::string> flags = {"--output.mllog=true", "--checkpoint_every=2",
                                          "--samples=false"};
  const ProgramOutcome run = Train(out, flags);
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.out, HasSubstr("Warning:  the log of step 2: cannot write the log " + out));
  EXPECT_THAT(run.err, HasSubstr("cannot write the log " + out));
  EXPECT_TRUE(fs::exists(Checkpoint(out, 2)) && fs::exists(Checkpoint(out, 4)));
  EXPECT_TRUE(fs::exists(out + kModel));
}

// A disk with room for the last checkpoint or for the model, but not for both, as if another
// program were filling it.
TEST(KeepWorkTest, OnASmallDiskTheModelOutranksTheLastCheckpoint) {
  const std::string folder = FreshPath("small");
  ASSERT_TRUE(MakeFolder(folder).ok());
  const std::string train = absl::StrJoin(
      Flags(folder + "/run", {"--save_every=0", "--samples=false", "--checkpoint_every=0"}), " ");
  const ProgramOutcome run = RunProgram(
      "/usr/bin/unshare",
      {"--mount", "/bin/sh", "-c",
       absl::StrCat("mount -t tmpfs -o size=44m none ", folder, " && echo mounted && tools/train ",
                    train, "; echo exit $?; ls -R ", folder)},
      /*deadline_s=*/240);
  if (!absl::StrContains(run.out, "mounted")) GTEST_SKIP() << run.err;
  EXPECT_THAT(run.out,
              HasSubstr("/run/model/unet:\nconfig.json\ndiffusion_pytorch_model.safetensors"));
  // It depends on timing which of the two is written first.
  const bool exceeded_limit = absl::StrContains(run.out, "was removed to make room for the model");
  if (exceeded_limit) {
    EXPECT_THAT(run.out, AllOf(HasSubstr("exit 0\n"), Not(HasSubstr("MANIFEST"))));
  } else {
    EXPECT_THAT(run.out,
                AllOf(HasSubstr("exit 1\n"), HasSubstr("Saved:    " + folder + "/run/model")));
    EXPECT_THAT(run.err, HasSubstr("the checkpoint of step 4 was not written"));
  }
}

TEST(KeepWorkTest, ARunThatCannotSaveItsModelDoesNotBegin) {
  const std::string folder = FreshPath("tiny");
  ASSERT_TRUE(MakeFolder(folder).ok());
  const std::string train = absl::StrJoin(Flags(folder + "/run", {}), " ");
  const ProgramOutcome run =
      RunProgram("/usr/bin/unshare",
                 {"--mount", "/bin/sh", "-c",
                  absl::StrCat("mount -t tmpfs -o size=12m none ", folder,
                               " && echo mounted && exec tools/train ", train)},
                 /*deadline_s=*/240);
  if (!absl::StrContains(run.out, "mounted")) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.err,
              HasSubstr("the model could not be saved in " + folder + "/run/model: it takes 13."));
  EXPECT_THAT(run.err, HasSubstr("MiB free: free some space, or choose another --out"));
  EXPECT_THAT(run.out, Not(HasSubstr("Training:")));
}

// The file-size limit allows the model in bf16, but not the files of a checkpoint.
TEST(KeepWorkTest, WithoutItsLastCheckpointARunHasItsModelAndFails) {
  const std::string out = FreshPath("last");
  const std::string train =
      absl::StrJoin(Flags(out, {"--samples=false", "--store=bf16", "--checkpoint_every=2"}), " ");
  const ProgramOutcome first =
      RunProgram("/bin/sh", {"-c", "exec tools/train " + train}, /*deadline_s=*/240);
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  const auto model = fs::file_size(out + kModel);
  const auto weights = fs::file_size(out + "/checkpoints/step_00000004/weight.safetensors");
  ASSERT_GT(weights, model + model / 2);
  fs::remove_all(out);
  const ProgramOutcome run =
      RunProgram("/bin/sh",
                 {"-c", absl::StrCat("trap '' XFSZ; ulimit -f ", (model + weights) / 2 / 512,
                                     "; exec tools/train ", train)},
                 /*deadline_s=*/240);
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("the checkpoint of step 2 was not written"),
                             Not(HasSubstr("step 4 was not written"))));
  EXPECT_THAT(run.err, AllOf(HasSubstr("the checkpoint of step 4 was not written: cannot write "),
                             HasSubstr("; --resume=auto starts over, once ")));
  EXPECT_TRUE(fs::exists(out + kModel));
}

TEST(KeepWorkTest, RequestFilesOfAnEarlierRunAreIgnored) {
  const std::string out = FreshPath("told");
  Touch(out + "/checkpoints/STOP");
  Touch(out + "/checkpoints/SAVE_NOW");
  const ProgramOutcome run = Train(out, {"--samples=false"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("removed the file STOP"), HasSubstr("Trained 4 steps")));
}

}  // namespace
}  // namespace dpipe
